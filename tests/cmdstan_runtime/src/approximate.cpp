// The methods that end in an approximation: optimize, laplace, pathfinder and variational.
#include <stan/services/experimental/advi/fullrank.hpp>
#include <stan/services/experimental/advi/meanfield.hpp>
#include <stan/services/optimize/bfgs.hpp>
#include <stan/services/optimize/laplace_sample.hpp>
#include <stan/services/optimize/lbfgs.hpp>
#include <stan/services/optimize/newton.hpp>
#include <stan/services/pathfinder/multi.hpp>
#include <stan/services/pathfinder/single.hpp>
#include <stdexcept>

#include "methods.hpp"

namespace {

namespace services = stan::services;
using stan::model::model_base;

int whole(const cli::argument& args, const std::string& name) {
  return static_cast<int>(args.at(name).as_integer());
}

// The tolerances that every quasi-Newton search takes.
struct line_search {
  double init_alpha, tol_obj, tol_rel_obj, tol_grad, tol_rel_grad, tol_param;

  explicit line_search(const cli::argument& args)
      : init_alpha(args.at("init_alpha").as_real()),
        tol_obj(args.at("tol_obj").as_real()),
        tol_rel_obj(args.at("tol_rel_obj").as_real()),
        tol_grad(args.at("tol_grad").as_real()),
        tol_rel_grad(args.at("tol_rel_grad").as_real()),
        tol_param(args.at("tol_param").as_real()) {}
};

template <bool jacobian>
int climb(job& run) {
  const cli::argument& args = run.method;
  const int iterations = whole(args, "iter");
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
      run.model, *init, run.seed, run.id, run.init_radius, whole(algorithm, "history_size"),
      search.init_alpha, search.tol_obj, search.tol_rel_obj, search.tol_grad,
      search.tol_rel_grad, search.tol_param, iterations, save, run.refresh, run.interrupt,
      run.logger, init_writer, out);
}

// The mode in unconstrained space, from optimize's CSV (its last row) or named values.
Eigen::VectorXd read_mode(const std::string& path, model_base& model) {
  if (path.empty())
    throw std::invalid_argument("No mode file provided, method laplace needs mode=<file>");
  if (!files::ends_with(path, ".csv"))
    return files::unconstrain(path, model);
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
  const int draws = whole(args, "draws");
  const bool calculate_lp = args.at("calculate_lp").as_boolean();
  files::csv_writer out = run.csv();
  files::json_writer hessian = run.json(run.arguments.at("output/diagnostic_file").as_text());
  if (args.at("jacobian").as_boolean())
    return services::laplace_sample<true>(run.model, mode, draws, calculate_lp, run.seed,
                                          run.refresh, run.interrupt, run.logger, out, hessian);
  return services::laplace_sample<false>(run.model, mode, draws, calculate_lp, run.seed,
                                         run.refresh, run.interrupt, run.logger, out, hessian);
}

int pathfinder(job& run) {
  const cli::argument& args = run.method;
  const line_search search(args);
  const int paths = whole(args, "num_paths");
  const int history = whole(args, "history_size");
  const int iterations = whole(args, "max_lbfgs_iters");
  const int elbo_draws = whole(args, "num_elbo_draws");
  const int draws = whole(args, "num_draws");
  const bool save_paths = args.at("save_single_paths").as_boolean();
  const bool calculate_lp = args.at("calculate_lp").as_boolean();
  const bool resample = args.at("psis_resample").as_boolean();
  const auto inits = run.inits(paths);
  const std::string& diagnostics = run.arguments.at("output/diagnostic_file").as_text();
  files::csv_writer out = run.csv();

  if (paths == 1) {
    files::csv_writer init_writer(nullptr);
    files::json_writer diagnostic = run.json(
        save_paths ? files::with_suffix(run.output, "", ".json") : diagnostics);
    return services::pathfinder::pathfinder_lbfgs_single(
        run.model, *inits.front(), run.seed, run.id, run.init_radius, history, search.init_alpha,
        search.tol_obj, search.tol_rel_obj, search.tol_grad, search.tol_rel_grad,
        search.tol_param, iterations, elbo_draws, draws, save_paths, run.refresh, run.interrupt,
        run.logger, init_writer, out, diagnostic, calculate_lp);
  }

  std::vector<files::csv_writer> init_writers, path_writers;
  std::vector<files::json_writer> path_diagnostics;
  init_writers.reserve(paths);
  path_writers.reserve(paths);
  path_diagnostics.reserve(paths);
  for (int i = 0; i < paths; ++i) {
    const std::string mark = "_path_" + std::to_string(run.id + i);
    init_writers.emplace_back(nullptr);
    if (save_paths)
      path_writers.push_back(run.csv(files::with_suffix(run.output, mark), run.id + i));
    else
      path_writers.emplace_back(nullptr);
    path_diagnostics.push_back(
        run.json(save_paths ? files::with_suffix(run.output, mark, ".json") : ""));
  }
  files::json_writer diagnostic = run.json(diagnostics);
  return services::pathfinder::pathfinder_lbfgs_multi(
      run.model, inits, run.seed, run.id, run.init_radius, history, search.init_alpha,
      search.tol_obj, search.tol_rel_obj, search.tol_grad, search.tol_rel_grad, search.tol_param,
      iterations, elbo_draws, draws, whole(args, "num_psis_draws"), paths, save_paths,
      run.refresh, run.interrupt, run.logger, init_writers, path_writers, path_diagnostics, out,
      diagnostic, calculate_lp, resample);
}

int variational(job& run) {
  const cli::argument& args = run.method;
  const auto init = run.inits(1).front();
  const std::string& diagnostics = run.arguments.at("output/diagnostic_file").as_text();
  files::csv_writer init_writer(nullptr);
  files::csv_writer out = run.csv();
  files::csv_writer diagnostic
      = diagnostics.empty() ? files::csv_writer(nullptr) : run.csv(diagnostics, run.id);
  auto approximate = [&](auto&& algorithm) {
    return algorithm(run.model, *init, run.seed, run.id, run.init_radius,
                     whole(args, "grad_samples"), whole(args, "elbo_samples"),
                     whole(args, "iter"), args.at("tol_rel_obj").as_real(),
                     args.at("eta").as_real(), args.at("adapt/engaged").as_boolean(),
                     whole(args, "adapt/iter"), whole(args, "eval_elbo"),
                     whole(args, "output_samples"), run.interrupt, run.logger, init_writer, out,
                     diagnostic);
  };
  if (args.at("algorithm").chose("fullrank"))
    return approximate(services::experimental::advi::fullrank<model_base>);
  return approximate(services::experimental::advi::meanfield<model_base>);
}
