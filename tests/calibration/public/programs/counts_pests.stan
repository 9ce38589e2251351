// Pests caught in traps, with the nights of exposure as an offset.
data {
  int<lower=0> n_obs;
  vector<lower=0>[n_obs] nights;
  vector[n_obs] before;
  vector<lower=0, upper=1>[n_obs] treated;
  vector<lower=0, upper=1>[n_obs] senior;
  array[n_obs] int<lower=0> y;
}
transformed data {
  vector[n_obs] offset_ = log(nights);
}
parameters {
  real b0;
  vector[3] b;
  real<lower=0> reciprocal_phi;
}
transformed parameters {
  real phi = 1. / reciprocal_phi;
}
model {
  b0 ~ normal(1, 0.7);
  b[1] ~ normal(0, 0.4);
  b[2] ~ normal(-0.5, 0.4);
  b[3] ~ normal(0, 0.4);
  reciprocal_phi ~ exponential(2);
  y ~ neg_binomial_2_log(b0 + b[1] * before + b[2] * treated + b[3] * senior + offset_, phi);
}
generated quantities {
  real ratio = exp(b[2]);
}
