// Emax curves with a baseline, by study.
data {
  int<lower=1> N;
  int<lower=1> S;
  vector<lower=0>[N] exposure;
  vector[N] response;
  array[N] int<lower=1, upper=S> study;
}
parameters {
  real e0;
  real emax;
  real<lower=0> ec50;
  real<lower=0> gamma_par;
  real<lower=0> sigma;
  real<lower=0> omega;
  vector[S] eta;
}
transformed parameters {
  vector[N] exposure_exp;
  vector[N] respHat;
  for (i in 1:N) exposure_exp[i] = exposure[i]^gamma_par;
  respHat = e0 + omega * eta[study] + emax * exposure_exp ./ (ec50^gamma_par + exposure_exp);
}
model {
  e0 ~ normal(0, 1);
  emax ~ normal(3, 0.7);
  ec50 ~ lognormal(0.5, 0.4);
  gamma_par ~ lognormal(0, 0.25);
  sigma ~ normal(0, 1);
  omega ~ normal(0, 0.5);
  eta ~ std_normal();
  response ~ normal(respHat, sigma);
}
