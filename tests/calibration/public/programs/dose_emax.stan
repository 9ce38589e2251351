// Effects that level off with the concentration, in several studies.
data {
  int<lower=1> N;
  int<lower=1> n_study;
  vector<lower=0>[N] conc;
  vector[N] effect;
  array[N] int<lower=1, upper=n_study> study;
}
transformed data {
  vector[N] log_conc = log(conc);
}
parameters {
  real base;
  real top;
  real log_half;
  real<lower=0> steep;
  real<lower=0> sigma;
  real<lower=0> omega;
  vector[n_study] z;
}
model {
  base ~ normal(0, 1);
  top ~ normal(3, 0.7);
  log_half ~ normal(0.5, 0.4);
  steep ~ lognormal(0, 0.25);
  sigma ~ normal(0, 1);
  omega ~ normal(0, 0.5);
  z ~ std_normal();
  effect ~ normal(base + omega * z[study] + top * inv_logit(steep * (log_conc - log_half)), sigma);
}
