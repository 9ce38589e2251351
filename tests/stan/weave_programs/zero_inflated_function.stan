// data: {"N": 16, "K": 2}
functions {
  real zip_lpmf(int y, real eta, real zi) {
    if (y == 0) {
      return log_sum_exp(bernoulli_lpmf(1 | zi), bernoulli_lpmf(0 | zi) + poisson_log_lpmf(0 | eta));
    } else {
      return bernoulli_lpmf(0 | zi) + poisson_log_lpmf(y | eta);
    }
  }
}
data { int N; int K; matrix[N, K] X; array[N] int<lower=0> y; }
parameters { vector[K] b; real<lower=0, upper=1> zi; }
model {
  vector[N] eta = X * b;
  for (n in 1:N) target += zip_lpmf(y[n] | eta[n], zi);
  b ~ normal(0, 1);
}
