// Reaction times: normal plus exponential, both by condition, and subjects.
data {
  int<lower=1> N;
  int<lower=1> S;
  array[N] int<lower=1, upper=S> subject;
  vector[N] incongruent;
  vector[N] rt;
}
parameters {
  real mu0;
  real b_mu;
  real<lower=0> sigma;
  real log_tau;
  real b_tau;
  real<lower=0> sd_subject;
  vector[S] u;
}
model {
  mu0 ~ normal(0.5, 0.1);
  b_mu ~ normal(0, 0.1);
  sigma ~ gamma(8, 80);
  log_tau ~ normal(-1.5, 0.3);
  b_tau ~ normal(0.2, 0.3);
  sd_subject ~ gamma(4, 40);
  u ~ normal(0, sd_subject);
  for (n in 1:N)
    rt[n] ~ exp_mod_normal(mu0 + b_mu * incongruent[n] + u[subject[n]], sigma,
                           exp(-(log_tau + b_tau * incongruent[n])));
}
