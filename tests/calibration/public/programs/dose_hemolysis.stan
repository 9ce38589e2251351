// A share that rises with the field by Hill's equation, beta distributed.
data {
  int<lower=1> N;
  vector<lower=0>[N] E;
  vector<lower=0, upper=1>[N] H;
}
parameters {
  real<lower=0, upper=1> u_min;
  real<lower=0, upper=1> range;
  real<lower=0> K;
  real<lower=0> ni;
  real<lower=0> phi;
}
transformed parameters {
  vector[N] mu_i;
  for (i in 1:N) {
    mu_i[i] = u_min + (1 - u_min) * range / (1 + pow(K / E[i], ni));
  }
}
model {
  u_min ~ beta(4, 36);
  range ~ beta(20, 5);
  K ~ lognormal(log(1.5), 0.3);
  ni ~ gamma(12, 5);
  phi ~ gamma(8, 0.5);
  for (i in 1:N) {
    H[i] ~ beta(mu_i[i] * phi, (1 - mu_i[i]) * phi);
  }
}
