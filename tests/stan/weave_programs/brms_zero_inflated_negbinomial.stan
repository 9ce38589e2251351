// data: {"N": 14, "K": 2}
functions {
  real zero_inflated_neg_binomial_log_logit_lpmf(int y, real eta, real phi, real zi) {
    if (y == 0) {
      return log_sum_exp(bernoulli_logit_lpmf(1 | zi), bernoulli_logit_lpmf(0 | zi) + neg_binomial_2_log_lpmf(0 | eta, phi));
    } else {
      return bernoulli_logit_lpmf(0 | zi) + neg_binomial_2_log_lpmf(y | eta, phi);
    }
  }
}
data { int N; array[N] int<lower=0> Y; int K; matrix[N, K] X; }
parameters { vector[K] b; vector[K] b_zi; real<lower=0> shape; }
model {
  vector[N] mu = X * b;
  vector[N] zi = X * b_zi;
  for (n in 1:N) target += zero_inflated_neg_binomial_log_logit_lpmf(Y[n] | mu[n], shape, zi[n]);
  shape ~ gamma(2, 1);
}
