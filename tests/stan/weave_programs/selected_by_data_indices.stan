// data: {"N": 12, "K": 2, "N_obs": 7, "N_cens": 5, "ii_obs": "rng.integers(1, N + 1, N_obs)", "ii_cens": "rng.permutation(N)[:N_cens] + 1"}
// Row numbers given as data: one row may be selected twice, another not at all.
data {
  int<lower=1> N;
  int<lower=1> K;
  int<lower=0> N_obs;
  int<lower=0> N_cens;
  array[N_obs] int<lower=1, upper=N> ii_obs;
  array[N_cens] int<lower=1, upper=N> ii_cens;
  matrix[N, K] X;
  vector<lower=0>[N] t;
}
parameters {
  vector[K] b;
  real<lower=0> shape;
}
model {
  vector[N] eta = X * b;
  b ~ normal(0, 1);
  shape ~ gamma(2, 1);
  t[ii_obs] ~ weibull(shape, exp(-eta[ii_obs] / shape));
  target += weibull_lccdf(t[ii_cens] | shape, exp(-(X[ii_cens] * b) ./ shape))
            - exponential_lpdf(shape | 1);
}
