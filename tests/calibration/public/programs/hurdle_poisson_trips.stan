// Trips of households: whether there is any, and how many there are then.
data {
  int<lower=1> N;
  int<lower=1> K;
  matrix[N, K] X;
  array[N] int<lower=0> y;
}
parameters {
  real alpha_theta;
  vector[K] beta_theta;
  real alpha_lambda;
  vector[K] beta_lambda;
}
model {
  vector[N] theta = alpha_theta + X * beta_theta;
  vector[N] log_lambda = alpha_lambda + X * beta_lambda;
  alpha_theta ~ normal(0, 1);
  beta_theta ~ normal(0, 0.5);
  alpha_lambda ~ normal(0.7, 0.5);
  beta_lambda ~ normal(0, 0.3);
  for (n in 1:N) {
    if (y[n] == 0) {
      target += bernoulli_logit_lpmf(0 | theta[n]);
    } else {
      target += bernoulli_logit_lpmf(1 | theta[n])
                + poisson_log_lpmf(y[n] | log_lambda[n])
                - log1m_exp(-exp(log_lambda[n]));
    }
  }
}
