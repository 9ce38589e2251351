// data: {"N": 11, "K": 3}
// log_mix of an array of vectors is the sum of the mixtures of its entries.
data {
  int<lower=1> N;
  int<lower=1> K;
  vector[N] y;
  array[N] vector[K] other;
}
parameters {
  simplex[K] theta;
  ordered[K] mu;
  vector<lower=0>[K] s;
}
model {
  array[N] vector[K] lp;
  mu ~ normal(0, 3);
  s ~ exponential(1);
  for (n in 1 : N) {
    for (k in 1 : K) {
      lp[n][k] = normal_lpdf(y[n] | mu[k], s[k]);
    }
  }
  target += log_mix(theta, lp);
  target += 0.5 * log_mix(theta, other) - 0.1 * mu[1];
}
