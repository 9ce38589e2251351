// method=sample: NUTS with each metric, adapting or not, and the fixed-parameter sampler.
#include <memory>
#include <stdexcept>
#include <stan/io/array_var_context.hpp>
#include <stan/services/sample/fixed_param.hpp>
#include <stan/services/sample/hmc_nuts_dense_e.hpp>
#include <stan/services/sample/hmc_nuts_dense_e_adapt.hpp>
#include <stan/services/sample/hmc_nuts_diag_e.hpp>
#include <stan/services/sample/hmc_nuts_diag_e_adapt.hpp>
#include <stan/services/sample/hmc_nuts_unit_e.hpp>
#include <stan/services/sample/hmc_nuts_unit_e_adapt.hpp>
#include <stan/services/util/create_unit_e_dense_inv_metric.hpp>
#include <stan/services/util/create_unit_e_diag_inv_metric.hpp>

#include "methods.hpp"

namespace {

namespace services = stan::services;

std::vector<files::context> unit_metrics(bool dense, std::size_t size, std::size_t chains) {
  std::vector<files::context> all;
  for (std::size_t i = 0; i < chains; ++i)
    if (dense)
      all.push_back(std::make_shared<stan::io::array_var_context>(
          services::util::create_unit_e_dense_inv_metric(size)));
    else
      all.push_back(std::make_shared<stan::io::array_var_context>(
          services::util::create_unit_e_diag_inv_metric(size)));
  return all;
}

// One writer of each kind per chain; a kind that nobody asked for writes nowhere.
struct outputs {
  std::vector<files::csv_writer> init, sample, diagnostic;
  std::vector<files::json_writer> metric;

  outputs(const job& run, std::size_t chains, bool save_metric) {
    const std::string& diagnostics = run.arguments.at("output/diagnostic_file").as_text();
    init.reserve(chains);
    sample.reserve(chains);
    diagnostic.reserve(chains);
    metric.reserve(chains);
    for (std::size_t i = 0; i < chains; ++i) {
      const unsigned id = run.id + i;
      const std::string mark = chains == 1 ? "" : "_" + std::to_string(id);
      const std::string path = files::with_suffix(run.output, mark);
      init.emplace_back(nullptr);
      sample.push_back(run.csv(path, id));
      if (diagnostics.empty())
        diagnostic.emplace_back(nullptr);
      else
        diagnostic.push_back(run.csv(files::with_suffix(diagnostics, mark), id));
      metric.push_back(
          run.json(save_metric ? files::with_suffix(path, "_metric", ".json") : ""));
    }
  }
};

}  // namespace

int sample(job& run) {
  const cli::argument& args = run.method;
  auto whole = [&](const char* name) { return static_cast<int>(args.at(name).as_integer()); };
  auto real = [&](const char* name) { return args.at(name).as_real(); };
  const int chains = whole("num_chains");
  const int samples = whole("num_samples");
  const int warmup = whole("num_warmup");
  const int thin = whole("thin");
  const bool save_warmup = args.at("save_warmup").as_boolean();
  const bool engaged = args.at("adapt/engaged").as_boolean();
  auto inits = run.inits(chains);
  outputs out(run, chains, args.at("adapt/save_metric").as_boolean());

  const bool no_parameters = run.model.num_params_r() == 0;
  if (no_parameters)
    run.logger.info("Model contains no parameters, running fixed_param sampler, "
                    "no updates to Markov chain");
  if (no_parameters || args.at("algorithm").chose("fixed_param"))
    return services::sample::fixed_param(run.model, chains, inits, run.seed, run.id,
                                         run.init_radius, samples, thin, run.refresh,
                                         run.interrupt, run.logger, out.init, out.sample,
                                         out.diagnostic);

  if (engaged && warmup == 0)
    throw std::invalid_argument("The number of warmup samples (num_warmup) must be greater than "
                                "zero if adaptation is enabled.");
  const std::string metric = args.at("algorithm/hmc/metric").chosen();
  const std::string& metric_file = args.at("algorithm/hmc/metric_file").as_text();
  const double stepsize = real("algorithm/hmc/stepsize");
  const double jitter = real("algorithm/hmc/stepsize_jitter");
  const int depth = whole("algorithm/hmc/engine/nuts/max_depth");
  const double delta = real("adapt/delta");
  const double gamma = real("adapt/gamma");
  const double kappa = real("adapt/kappa");
  const double t0 = real("adapt/t0");
  const unsigned init_buffer = whole("adapt/init_buffer");
  const unsigned term_buffer = whole("adapt/term_buffer");
  const unsigned window = whole("adapt/window");

  if (metric == "unit_e" && engaged)
    return services::sample::hmc_nuts_unit_e_adapt(
        run.model, chains, inits, run.seed, run.id, run.init_radius, warmup, samples, thin,
        save_warmup, run.refresh, stepsize, jitter, depth, delta, gamma, kappa, t0, run.interrupt,
        run.logger, out.init, out.sample, out.diagnostic, out.metric);
  if (metric == "unit_e")
    return services::sample::hmc_nuts_unit_e(
        run.model, chains, inits, run.seed, run.id, run.init_radius, warmup, samples, thin,
        save_warmup, run.refresh, stepsize, jitter, depth, run.interrupt, run.logger, out.init,
        out.sample, out.diagnostic);

  const bool dense = metric == "dense_e";
  const auto metrics = metric_file.empty()
                           ? unit_metrics(dense, run.model.num_params_r(), chains)
                           : files::read_contexts(metric_file, chains, run.id);
  if (dense && engaged)
    return services::sample::hmc_nuts_dense_e_adapt(
        run.model, chains, inits, metrics, run.seed, run.id, run.init_radius, warmup, samples,
        thin, save_warmup, run.refresh, stepsize, jitter, depth, delta, gamma, kappa, t0,
        init_buffer, term_buffer, window, run.interrupt, run.logger, out.init, out.sample,
        out.diagnostic, out.metric);
  if (dense)
    return services::sample::hmc_nuts_dense_e(
        run.model, chains, inits, metrics, run.seed, run.id, run.init_radius, warmup, samples,
        thin, save_warmup, run.refresh, stepsize, jitter, depth, run.interrupt, run.logger,
        out.init, out.sample, out.diagnostic);
  if (engaged)
    return services::sample::hmc_nuts_diag_e_adapt(
        run.model, chains, inits, metrics, run.seed, run.id, run.init_radius, warmup, samples,
        thin, save_warmup, run.refresh, stepsize, jitter, depth, delta, gamma, kappa, t0,
        init_buffer, term_buffer, window, run.interrupt, run.logger, out.init, out.sample,
        out.diagnostic, out.metric);
  return services::sample::hmc_nuts_diag_e(
      run.model, chains, inits, metrics, run.seed, run.id, run.init_radius, warmup, samples, thin,
      save_warmup, run.refresh, stepsize, jitter, depth, run.interrupt, run.logger, out.init,
      out.sample, out.diagnostic);
}
