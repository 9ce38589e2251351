// CmdStan's arguments with their defaults, as the CmdStan Guide lists them.
#include <stan/version.hpp>

#include <limits>

#include "arguments.hpp"

namespace cli {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr range any{-infinity, infinity, false, false};
constexpr range positive{0, infinity, true, false};
constexpr range non_negative{0, infinity, false, false};
constexpr range probability{0, 1, true, true};
constexpr range fraction{0, 1, false, false};

// CmdStan 2.36 raised the digits that it writes from the stream's 6 to 8.
constexpr int standard_sig_figs = STAN_MINOR >= 36 ? 8 : -1;

auto integer = argument::integer;
auto real = argument::real;
auto boolean = argument::boolean;
auto text = argument::text;
auto group = argument::group;

std::vector<argument> line_search() {
  return {real("init_alpha", 0.001, positive), real("tol_obj", 1e-12, non_negative),
          real("tol_rel_obj", 10000, non_negative), real("tol_grad", 1e-8, non_negative),
          real("tol_rel_grad", 1e7, non_negative), real("tol_param", 1e-8, non_negative)};
}

std::vector<argument> with(std::vector<argument> members, const std::vector<argument>& more) {
  members.insert(members.end(), more.begin(), more.end());
  return members;
}

argument sample() {
  const argument adapt = group(
      "adapt", {boolean("engaged", true), real("gamma", 0.05, positive),
                real("delta", 0.8, probability), real("kappa", 0.75, positive),
                real("t0", 10, positive), integer("init_buffer", 75, non_negative),
                integer("term_buffer", 50, non_negative), integer("window", 25, non_negative),
                boolean("save_metric", false)});
  const argument hmc = group(
      "hmc",
      {argument::choice("engine", {group("nuts", {integer("max_depth", 10, positive)})}),
       argument::choice("metric", {group("unit_e", {}), group("diag_e", {}), group("dense_e", {})},
                        1),
       text("metric_file", ""), real("stepsize", 1, positive),
       real("stepsize_jitter", 0, fraction)});
  return group("sample", {integer("num_samples", 1000, non_negative),
                          integer("num_warmup", 1000, non_negative),
                          boolean("save_warmup", false), integer("thin", 1, positive), adapt,
                          argument::choice("algorithm", {hmc, group("fixed_param", {})}),
                          integer("num_chains", 1, positive)});
}

argument optimize() {
  const argument history = integer("history_size", 5, positive);
  return group("optimize", {argument::choice("algorithm", {group("bfgs", line_search()),
                                                           group("lbfgs", with(line_search(),
                                                                               {history})),
                                                           group("newton", {})},
                                             1),
                            boolean("jacobian", false), integer("iter", 2000, positive),
                            boolean("save_iterations", false)});
}

argument laplace() {
  return group("laplace", {text("mode", ""), boolean("jacobian", true),
                           integer("draws", 1000, positive), boolean("calculate_lp", true)});
}

argument pathfinder() {
  return group("pathfinder",
               with(line_search(),
                    {integer("history_size", 5, positive),
                     integer("num_psis_draws", 1000, positive), integer("num_paths", 4, positive),
                     boolean("save_single_paths", false), boolean("psis_resample", true),
                     boolean("calculate_lp", true), integer("max_lbfgs_iters", 1000, positive),
                     integer("num_draws", 1000, positive),
                     integer("num_elbo_draws", 25, positive)}));
}

argument variational() {
  return group("variational",
               {argument::choice("algorithm", {group("meanfield", {}), group("fullrank", {})}),
                integer("iter", 10000, positive), integer("grad_samples", 1, positive),
                integer("elbo_samples", 100, positive), real("eta", 1, positive),
                group("adapt", {boolean("engaged", true), integer("iter", 50, positive)}),
                real("tol_rel_obj", 0.01, positive), integer("eval_elbo", 100, positive),
                integer("output_samples", 1000, non_negative)});
}

argument diagnose() {
  return group("diagnose",
               {argument::choice("test", {group("gradient", {real("epsilon", 1e-6, positive),
                                                             real("error", 1e-6, positive)})})});
}

argument generate_quantities() {
  return group("generate_quantities", {text("fitted_params", "")});
}

argument log_prob() {
  return group("log_prob", {text("unconstrained_params", ""), text("constrained_params", ""),
                            boolean("jacobian", true)});
}

}  // namespace

argument command_line() {
  return group(
      "", {argument::choice("method", {sample(), optimize(), variational(), diagnose(),
                                       generate_quantities(), pathfinder(), log_prob(),
                                       laplace()}),
           integer("id", 1, non_negative), group("data", {text("file", "")}),
           text("init", "2"),
           group("random", {integer("seed", 0, {0, 4294967295.0, false, false})}),
           group("output", {text("file", "output.csv"), text("diagnostic_file", ""),
                            integer("refresh", 100, non_negative),
                            integer("sig_figs", standard_sig_figs, {-1, 18, false, false}),
                            text("profile_file", "profile.csv"),
                            boolean("save_cmdstan_config", false)}),
           integer("num_threads", 1, {-1, infinity, false, false})});
}

}  // namespace cli
