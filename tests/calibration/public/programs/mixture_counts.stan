// Clicks of users of three kinds, Poisson in each.
data {
  int<lower=1> N;
  array[N] int<lower=0> clicks;
  vector<lower=0>[N] days;
}
transformed data {
  int K = 3;
}
parameters {
  ordered[K] log_rate;
  simplex[K] w;
}
model {
  log_rate[1] ~ normal(-1, 0.3);
  log_rate[2] ~ normal(0.7, 0.3);
  log_rate[3] ~ normal(2, 0.3);
  w ~ dirichlet([4, 4, 4]');
  for (n in 1:N) {
    array[K] real lp;
    for (k in 1:K) {
      lp[k] = log(w[k]) + poisson_log_lpmf(clicks[n] | log_rate[k] + log(days[n]));
    }
    target += log_sum_exp(lp);
  }
}
