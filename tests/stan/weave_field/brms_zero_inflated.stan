functions {
  real zero_inflated_poisson_lpmf(int y, real lambda, real zi) {
    if (y == 0) {
      return log_sum_exp(bernoulli_lpmf(1 | zi), bernoulli_lpmf(0 | zi) + poisson_lpmf(0 | lambda));
    } else {
      return bernoulli_lpmf(0 | zi) + poisson_lpmf(y | lambda);
    }
  }
  real zero_inflated_poisson_log_logit_lpmf(int y, real eta, real zi) {
    if (y == 0) {
      return log_sum_exp(bernoulli_logit_lpmf(1 | zi),
                         bernoulli_logit_lpmf(0 | zi) + poisson_log_lpmf(0 | eta));
    } else {
      return bernoulli_logit_lpmf(0 | zi) + poisson_log_lpmf(y | eta);
    }
  }
}
data {
  int<lower=1> N; array[N] int Y; int<lower=1> K; matrix[N, K] X;
  int<lower=1> K_zi; matrix[N, K_zi] X_zi; vector[N] offsets; int prior_only;
}
parameters { vector[K] b; real Intercept; vector[K_zi] b_zi; }
model {
  if (!prior_only) {
    vector[N] mu = rep_vector(0.0, N);
    vector[N] zi = rep_vector(0.0, N);
    mu += Intercept + X * b + offsets;
    zi += X_zi * b_zi;
    for (n in 1:N) {
      target += zero_inflated_poisson_log_logit_lpmf(Y[n] | mu[n], zi[n]);
    }
  }
  target += normal_lpdf(b | 0, 1) + normal_lpdf(Intercept | 0, 2);
  target += logistic_lpdf(b_zi | 0, 1);
}
