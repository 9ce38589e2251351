// Proportional hazards with a Weibull baseline and a frailty of each centre.
functions {
  real log_hazard(real t, real shape, real lp) {
    return log(shape) + (shape - 1) * log(t) + lp;
  }
  real log_survival(real t, real shape, real lp) {
    return -exp(lp) * t^shape;
  }
}
data {
  int<lower=1> N;
  int<lower=1> J;
  vector<lower=0>[N] time;
  array[N] int<lower=0, upper=1> status;
  vector[N] age;
  vector[N] trt;
  array[N] int<lower=1, upper=J> centre;
}
parameters {
  real beta_age;
  real beta_trt;
  real log_rate;
  real<lower=0> shape;
  vector[J] frailty;
  real<lower=0> sd_frailty;
}
model {
  beta_age ~ normal(0, 0.5);
  beta_trt ~ normal(-0.3, 0.4);
  log_rate ~ normal(-1, 0.5);
  shape ~ lognormal(0, 0.3);
  sd_frailty ~ normal(0, 0.5);
  frailty ~ normal(0, sd_frailty);
  for (i in 1:N) {
    real lp = log_rate + beta_age * age[i] + beta_trt * trt[i] + frailty[centre[i]];
    target += status[i] * log_hazard(time[i], shape, lp) + log_survival(time[i], shape, lp);
  }
}
