// Consul's generalised Poisson counts: clutches that bring others with them.
functions {
  real generalized_poisson_log_lpmf(int y, real log_mean, real lambda) {
    real log_theta = log_mean + log1m(lambda);
    real rate = exp(log_theta) + lambda * y;
    return log_theta + (y - 1) * log(rate) - rate - lgamma(y + 1);
  }
}
data {
  int<lower=1> N;
  array[N] int<lower=0> eggs;
  vector[N] size_;
  vector[N] late;
  vector<lower=0>[N] traps;
}
parameters {
  real base;
  real b_size;
  real b_late;
  real<lower=0, upper=1> lambda;
}
model {
  base ~ normal(0.5, 0.5);
  b_size ~ normal(0, 0.3);
  b_late ~ normal(-0.3, 0.3);
  lambda ~ beta(2, 6);
  for (n in 1:N) {
    real eta = log(traps[n]) + base + b_size * size_[n] + b_late * late[n];
    eggs[n] ~ generalized_poisson_log(eta, lambda);
  }
}
