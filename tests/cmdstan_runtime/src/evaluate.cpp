// The methods that evaluate the program at given points: generate_quantities, log_prob, diagnose.
#include <cstdlib>
#include <sstream>
#include <stan/model/log_prob_grad.hpp>
#include <stan/services/diagnose/diagnose.hpp>
#include <stan/services/sample/standalone_gqs.hpp>
#include <stdexcept>

#include "methods.hpp"

namespace {

using rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// `params_r`: one vector of unconstrained parameters, or an array of such vectors. Stan keeps an
// array of arrays column by column, and CmdStan deals it out point by point: the points that are
// read are not those that were written. Later versions read them as written; so does this one
// where CMDSTAN_READS_POINTS is "rows".
rows read_unconstrained(const std::string& path, const stan::model::model_base& model) {
  const auto context = files::read_context(path);
  const auto values = context->vals_r("params_r");
  if (values.empty())
    throw std::invalid_argument("Unconstrained parameters file has no variable 'params_r' with "
                                "unconstrained parameter values!");
  const auto dims = context->dims_r("params_r");
  const std::size_t points = dims.size() == 2 ? dims[0] : 1;
  const std::size_t size = dims.size() == 2 ? dims[1] : dims[0];
  if (size != model.num_params_r()) {
    std::ostringstream message;
    message << "Incorrect number of unconstrained parameters provided! Model has "
            << model.num_params_r() << " parameters but " << size << " were found.";
    throw std::invalid_argument(message.str());
  }
  const char* wanted = std::getenv("CMDSTAN_READS_POINTS");
  if (wanted != nullptr && std::string(wanted) == "rows")
    return Eigen::Map<const Eigen::MatrixXd>(values.data(), points, size);
  return Eigen::Map<const rows>(values.data(), points, size);
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
    throw std::invalid_argument("No input parameter files provided, cannot calculate log "
                                "probability density.");
  if (!unconstrained.empty() && !constrained.empty())
    throw std::invalid_argument("Cannot specify both input files of both constrained and "
                                "unconstrained parameter values.");
  return unconstrained.empty() ? read_constrained(constrained, model)
                               : read_unconstrained(unconstrained, model);
}

}  // namespace

int generate_quantities(job& run) {
  const std::string& path = run.method.at("fitted_params").as_text();
  if (path.empty())
    throw std::invalid_argument("Missing fitted_params argument, cannot run generate_quantities "
                                "without fitted sample.");
  if (!files::ends_with(path, ".csv"))
    throw std::invalid_argument("Fitted params file must be a CSV file.");
  const Eigen::MatrixXd draws = files::read_draws(path, run.model);
  files::csv_writer out = run.csv();
  return stan::services::standalone_generate(run.model, draws, run.seed, run.interrupt,
                                             run.logger, out);
}

// Columns lp__ and g_<name>: the log density without constant terms, as NUTS sees it, and its
// gradient by the unconstrained parameters. The first point that the model rejects ends the run;
// the rows of those before it are there.
int log_prob(job& run) {
  files::csv_writer out = run.csv();
  const rows points = read_points(run.method, run.model);
  const bool jacobian = run.method.at("jacobian").as_boolean();
  std::vector<std::string> names;
  run.model.unconstrained_param_names(names, false, false);
  for (auto& name : names)
    name = "g_" + name;
  names.insert(names.begin(), "lp__");
  out(names);

  std::vector<int> no_integers;
  try {
    for (Eigen::Index i = 0; i < points.rows(); ++i) {
      std::vector<double> theta(points.row(i).begin(), points.row(i).end());
      std::vector<double> gradient;
      const double lp
          = jacobian
                ? stan::model::log_prob_grad<true, true>(run.model, theta, no_integers, gradient)
                : stan::model::log_prob_grad<true, false>(run.model, theta, no_integers, gradient);
      gradient.insert(gradient.begin(), lp);
      out(gradient);
    }
  } catch (const std::exception& error) {
    run.logger.error(std::string("Error during log_prob calculation:\n") + error.what());
    return 1;
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
