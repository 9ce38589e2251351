// The methods that evaluate the program at given points: generate_quantities, log_prob, diagnose.
#include <sstream>
#include <stan/model/log_prob_grad.hpp>
#include <stan/services/diagnose/diagnose.hpp>
#include <stan/services/sample/standalone_gqs.hpp>
#include <stdexcept>

#include "methods.hpp"

namespace {

using rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// `params_r`: one vector of unconstrained parameters, or an array of such vectors.
rows read_unconstrained(const std::string& path, const stan::model::model_base& model) {
  const auto context = files::read_context(path);
  if (!context->contains_r("params_r"))
    throw std::invalid_argument("Unconstrained parameters file \"" + path
                                + "\" has no variable named 'params_r'");
  const auto dims = context->dims_r("params_r");
  const auto values = context->vals_r("params_r");
  const std::size_t points = dims.size() == 2 ? dims[0] : 1;
  const std::size_t size = dims.size() == 2 ? dims[1] : values.size();
  if (dims.size() > 2 || size != model.num_params_r()) {
    std::ostringstream message;
    message << "Incorrect number of unconstrained parameters provided! Model has "
            << model.num_params_r() << " parameters but " << size << " were found";
    throw std::invalid_argument(message.str());
  }
  return Eigen::Map<const Eigen::MatrixXd>(values.data(), points, size);
}

// Constrained parameters as named values, or the draws of a Stan CSV file.
rows read_constrained(const std::string& path, stan::model::model_base& model) {
  if (!files::ends_with(path, ".csv"))
    return files::unconstrain(path, model).transpose();
  const Eigen::MatrixXd draws = files::read_draws(path, model);
  rows points(draws.rows(), model.num_params_r());
  Eigen::VectorXd theta;
  for (Eigen::Index i = 0; i < draws.rows(); ++i) {
    const Eigen::VectorXd draw = draws.row(i);
    model.unconstrain_array(draw, theta, nullptr);
    points.row(i) = theta;
  }
  return points;
}

rows read_points(const cli::argument& args, stan::model::model_base& model) {
  const std::string& unconstrained = args.at("unconstrained_params").as_text();
  const std::string& constrained = args.at("constrained_params").as_text();
  if (unconstrained.empty() && constrained.empty())
    throw std::invalid_argument("No input parameters provided, cannot calculate log probability "
                                "density");
  if (!unconstrained.empty() && !constrained.empty())
    throw std::invalid_argument("Only one of unconstrained_params and constrained_params can be "
                                "given");
  return unconstrained.empty() ? read_constrained(constrained, model)
                               : read_unconstrained(unconstrained, model);
}

}  // namespace

int generate_quantities(job& run) {
  const std::string& path = run.method.at("fitted_params").as_text();
  if (path.empty())
    throw std::invalid_argument("Must specify argument fitted_params, a Stan CSV file of draws");
  const Eigen::MatrixXd draws = files::read_draws(path, run.model);
  files::csv_writer out = run.csv();
  return stan::services::standalone_generate(run.model, draws, run.seed, run.interrupt,
                                             run.logger, out);
}

// Columns lp__ and g_<name>: the log density without constant terms, as NUTS sees it, and its
// gradient by the unconstrained parameters.
int log_prob(job& run) {
  const rows points = read_points(run.method, run.model);
  const bool jacobian = run.method.at("jacobian").as_boolean();
  std::vector<std::string> names;
  run.model.unconstrained_param_names(names, false, false);
  for (auto& name : names)
    name = "g_" + name;
  names.insert(names.begin(), "lp__");
  files::csv_writer out = run.csv();
  out(names);

  std::vector<int> no_integers;
  for (Eigen::Index i = 0; i < points.rows(); ++i) {
    std::vector<double> theta(points.row(i).begin(), points.row(i).end());
    std::vector<double> gradient;
    std::stringstream messages;
    const double lp
        = jacobian ? stan::model::log_prob_grad<true, true>(run.model, theta, no_integers,
                                                            gradient, &messages)
                   : stan::model::log_prob_grad<true, false>(run.model, theta, no_integers,
                                                             gradient, &messages);
    if (!messages.str().empty())
      run.logger.info(messages);
    gradient.insert(gradient.begin(), lp);
    out(gradient);
  }
  return 0;
}

int diagnose(job& run) {
  const cli::argument& test = run.method.at("test/gradient");
  const auto init = run.inits(1).front();
  files::csv_writer init_writer(nullptr);
  files::csv_writer out = run.csv();
  return stan::services::diagnose::diagnose(
      run.model, *init, run.seed, run.id, run.init_radius, test.at("epsilon").as_real(),
      test.at("error").as_real(), run.interrupt, run.logger, init_writer, out);
}
