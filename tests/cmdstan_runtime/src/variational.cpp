// method=pathfinder and method=variational.
#include <stan/services/experimental/advi/fullrank.hpp>
#include <stan/services/experimental/advi/meanfield.hpp>
#include <stan/services/pathfinder/multi.hpp>
#include <stan/services/pathfinder/single.hpp>

#include "line_search.hpp"
#include "methods.hpp"

namespace {

namespace services = stan::services;
using stan::model::model_base;

}  // namespace

int pathfinder(job& run) {
  const cli::argument& args = run.method;
  const line_search search(args);
  const int paths = args.at("num_paths").as_integer();
  const int history = args.at("history_size").as_integer();
  const int iterations = args.at("max_lbfgs_iters").as_integer();
  const int elbo_draws = args.at("num_elbo_draws").as_integer();
  const int draws = args.at("num_draws").as_integer();
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
      iterations, elbo_draws, draws, args.at("num_psis_draws").as_integer(), paths, save_paths,
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
                     args.at("grad_samples").as_integer(), args.at("elbo_samples").as_integer(),
                     args.at("iter").as_integer(), args.at("tol_rel_obj").as_real(),
                     args.at("eta").as_real(), args.at("adapt/engaged").as_boolean(),
                     args.at("adapt/iter").as_integer(), args.at("eval_elbo").as_integer(),
                     args.at("output_samples").as_integer(), run.interrupt, run.logger, init_writer, out,
                     diagnostic);
  };
  if (args.at("algorithm").chose("fullrank"))
    return approximate(services::experimental::advi::fullrank<model_base>);
  return approximate(services::experimental::advi::meanfield<model_base>);
}
