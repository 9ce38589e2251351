// Two causes compete: a Weibull hazard of each, one set of covariates.
data {
  int<lower=1> N;
  int<lower=1> K;
  vector<lower=0>[N] time;
  array[N] int<lower=0, upper=2> cause; // 0: censored
  matrix[N, K] X;
}
parameters {
  vector[2] log_rate;
  matrix[K, 2] beta;
  vector<lower=0>[2] shape;
}
model {
  log_rate ~ normal(-1, 0.5);
  to_vector(beta) ~ normal(0, 0.4);
  shape ~ lognormal(0, 0.3);
  for (n in 1:N) {
    for (j in 1:2) {
      real lp = log_rate[j] + X[n] * beta[, j];
      if (cause[n] == j)
        target += lp + log(shape[j]) + (shape[j] - 1) * log(time[n]);
      target += -exp(lp) * time[n]^shape[j];
    }
  }
}
