// data: {"N": 11, "K": 2, "dense_X": 1, "has_offset": 1, "has_weights": 0, "link": 1, "prior_dist": 1}
// rstanarm: data that are there or not, by a size of N or 0.
data {
  int<lower=0> N;
  int<lower=0> K;
  int<lower=0, upper=1> dense_X;
  array[dense_X] matrix[N, K] X;
  array[N] int<lower=0, upper=1> y;
  int<lower=0, upper=1> has_offset;
  vector[has_offset ? N : 0] offset_;
  int<lower=0, upper=1> has_weights;
  vector<lower=0>[has_weights == 0 ? 0 : N] weights;
  int<lower=1, upper=2> link;
  int<lower=0, upper=1> prior_dist;
}
parameters {
  real gamma;
  vector[K] beta;
}
model {
  vector[N] eta = X[1] * beta;
  if (has_offset) eta += offset_;
  eta += gamma;
  if (has_weights == 0) {
    if (link == 1) target += bernoulli_logit_lpmf(y | eta);
    else target += bernoulli_lpmf(y | Phi(eta));
  } else {
    for (n in 1:N) target += weights[n] * bernoulli_logit_lpmf(y[n] | eta[n]);
  }
  if (prior_dist == 1) target += normal_lpdf(beta | 0, 1);
  gamma ~ normal(0, 2);
}
