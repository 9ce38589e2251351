// data: {"N": 10}
data { int N; vector[N] y; vector<lower=0>[N] z; vector<lower=0, upper=1>[N] u; array[N] int<lower=0> k; }
parameters { real a; real<lower=0> s; real<lower=0> t; }
model {
  y ~ gumbel(a, s); y ~ logistic(a, s); y ~ double_exponential(a, s); y ~ skew_normal(a, s, t); y ~ exp_mod_normal(a, s, t);
  z ~ inv_gamma(s, t); z ~ weibull(s, t); z ~ chi_square(t + 1); z ~ frechet(s, t); z ~ rayleigh(s); z ~ loglogistic(s, t);
  u ~ beta_proportion(inv_logit(a), t); z ~ exponential(t); z ~ lognormal(a, s); z ~ gamma(s, t); u ~ uniform(-s, 1 + t);
  k ~ neg_binomial_2(s, t); k ~ neg_binomial(s, t); k ~ poisson(t); k ~ poisson_log(a); z ~ pareto_type_2(0, s, t); y ~ std_normal();
  y ~ student_t(3, a, s); y ~ cauchy(a, s);
}
