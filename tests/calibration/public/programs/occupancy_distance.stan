// Distances of animals seen from a line: a half-normal detection function, truncated at W.
data {
  int<lower=1> N;
  int<lower=1> n_obs;
  real<lower=0> W;
  array[N] real<lower=0, upper=W> d;
  array[N] int<lower=1, upper=n_obs> observer;
  vector[N] wind;
}
parameters {
  real log_sigma0;
  real b_wind;
  real<lower=0> omega;
  vector[n_obs] u;
}
transformed parameters {
  vector<lower=0>[N] sigma = exp(log_sigma0 + b_wind * wind + omega * u[observer]);
}
model {
  log_sigma0 ~ normal(-0.7, 0.3);
  b_wind ~ normal(0, 0.2);
  omega ~ normal(0, 0.25);
  u ~ std_normal();
  for (i in 1:N) {
    target += normal_lpdf(d[i] | 0, sigma[i]) - log(erf(W / (sqrt2() * sigma[i])));
  }
}
