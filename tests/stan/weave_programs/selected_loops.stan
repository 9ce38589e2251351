// data: {"N": 12, "K": 2, "N_obs": 7, "N_cens": 5, "ii_obs": "rng.integers(1, N + 1, N_obs)", "ii_cens": "rng.permutation(N)[:N_cens] + 1", "some": 4}
// Loops over row numbers given as data: the row itself, a name for it, branches, all or some.
data {
  int<lower=1> N;
  int<lower=1> K;
  int<lower=0> N_obs;
  int<lower=0> N_cens;
  int<lower=0, upper=N_cens> some;
  array[N_obs] int<lower=1, upper=N> ii_obs;
  array[N_cens] int<lower=1, upper=N> ii_cens;
  matrix[N, K] X;
  vector<lower=0>[N] t;
  array[N] int<lower=0, upper=1> group;
}
parameters {
  vector[K] b;
  real<lower=0> shape;
}
model {
  vector[N] eta = X * b;
  b ~ normal(0, 1);
  shape ~ gamma(2, 1);
  for (k in 1 : N_obs) {
    t[ii_obs[k]] ~ weibull(shape, exp(-eta[ii_obs[k]] / shape));
  }
  for (k in 1 : N_cens) {
    int i = ii_cens[k];
    real scale = exp(-X[i] * b / shape);
    if (group[i] == 1) {
      target += weibull_lccdf(t[i] | shape, scale);
    } else {
      target += weibull_lcdf(t[i] | shape, scale);
    }
  }
  for (i in ii_cens) {
    if (group[i] == 0) continue;
    t[i] ~ exponential(shape) T[, 50];
  }
  for (k in 1 : some) {
    target += 0.1 * exponential_lpdf(t[ii_cens[k]] | shape);
  }
}
