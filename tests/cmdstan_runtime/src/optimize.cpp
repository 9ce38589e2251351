// method=optimize and method=laplace.
#include <stan/services/optimize/bfgs.hpp>
#include <stan/services/optimize/laplace_sample.hpp>
#include <stan/services/optimize/lbfgs.hpp>
#include <stan/services/optimize/newton.hpp>
#include <stdexcept>

#include "line_search.hpp"
#include "methods.hpp"

namespace {

namespace services = stan::services;
using stan::model::model_base;

template <bool jacobian>
int climb(job& run) {
  const cli::argument& args = run.method;
  const int iterations = args.at("iter").as_integer();
  const bool save = args.at("save_iterations").as_boolean();
  const auto init = run.inits(1).front();
  files::csv_writer init_writer(nullptr);
  files::csv_writer out = run.csv();

  if (args.at("algorithm").chose("newton"))
    return services::optimize::newton<model_base, jacobian>(
        run.model, *init, run.seed, run.id, run.init_radius, iterations, save, run.interrupt,
        run.logger, init_writer, out);
  const cli::argument& algorithm = args.at("algorithm/" + args.at("algorithm").chosen());
  const line_search search(algorithm);
  if (args.at("algorithm").chose("bfgs"))
    return services::optimize::bfgs<model_base, jacobian>(
        run.model, *init, run.seed, run.id, run.init_radius, search.init_alpha, search.tol_obj,
        search.tol_rel_obj, search.tol_grad, search.tol_rel_grad, search.tol_param, iterations,
        save, run.refresh, run.interrupt, run.logger, init_writer, out);
  return services::optimize::lbfgs<model_base, jacobian>(
      run.model, *init, run.seed, run.id, run.init_radius,
      algorithm.at("history_size").as_integer(), search.init_alpha, search.tol_obj, search.tol_rel_obj, search.tol_grad,
      search.tol_rel_grad, search.tol_param, iterations, save, run.refresh, run.interrupt,
      run.logger, init_writer, out);
}

// The mode in unconstrained space, from optimize's CSV (its last row) or named values.
Eigen::VectorXd read_mode(const std::string& path, model_base& model) {
  if (path.empty())
    throw std::invalid_argument("Missing mode argument, cannot get laplace sample without parameter "
                                "estimates theta-hat");
  if (!files::ends_with(path, ".csv"))
    return files::unconstrain(path, model);
  if (!files::is_optimization(path))
    throw std::invalid_argument("CSV file is not output from Stan optimization");
  const Eigen::MatrixXd rows = files::read_draws(path, model);
  const Eigen::VectorXd last = rows.row(rows.rows() - 1);
  Eigen::VectorXd theta(model.num_params_r());
  model.unconstrain_array(last, theta, nullptr);
  return theta;
}

}  // namespace

int optimize(job& run) {
  return run.method.at("jacobian").as_boolean() ? climb<true>(run) : climb<false>(run);
}

int laplace(job& run) {
  const cli::argument& args = run.method;
  const Eigen::VectorXd mode = read_mode(args.at("mode").as_text(), run.model);
  const int draws = args.at("draws").as_integer();
  const bool calculate_lp = args.at("calculate_lp").as_boolean();
  files::csv_writer out = run.csv();
  files::json_writer hessian = run.json(run.arguments.at("output/diagnostic_file").as_text());
  if (args.at("jacobian").as_boolean())
    return services::laplace_sample<true>(run.model, mode, draws, calculate_lp, run.seed,
                                          run.refresh, run.interrupt, run.logger, out, hessian);
  return services::laplace_sample<false>(run.model, mode, draws, calculate_lp, run.seed,
                                         run.refresh, run.interrupt, run.logger, out, hessian);
}
