// Incomes that people tell in rounded numbers: the likelihood of an interval.
data {
  int<lower=1> N;
  vector[N] lower_;
  vector[N] upper_;
  matrix[N, 3] X;
}
parameters {
  real a;
  vector[3] b;
  real<lower=0> sigma;
}
model {
  a ~ normal(0, 1);
  b ~ normal(0, 0.7);
  sigma ~ gamma(4, 4);
  for (n in 1:N) {
    real m = a + X[n] * b;
    target += log_diff_exp(normal_lcdf(upper_[n] | m, sigma), normal_lcdf(lower_[n] | m, sigma));
  }
}
