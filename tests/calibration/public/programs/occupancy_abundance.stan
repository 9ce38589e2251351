// Repeated counts at sites: the number of animals is summed out up to K.
data {
  int<lower=1> R;
  int<lower=1> T;
  array[R, T] int<lower=0> y;
  int<lower=1> K;
  vector[R] habitat;
}
transformed data {
  array[R] int<lower=0> max_y;
  for (i in 1:R)
    max_y[i] = max(y[i]);
}
parameters {
  real a_lambda;
  real b_lambda;
  real logit_p;
}
model {
  a_lambda ~ normal(0.8, 0.3);
  b_lambda ~ normal(0, 0.25);
  logit_p ~ normal(0, 0.4);
  for (i in 1:R) {
    vector[K - max_y[i] + 1] lp;
    for (j in 1:(K - max_y[i] + 1)) {
      lp[j] = poisson_log_lpmf(max_y[i] + j - 1 | a_lambda + b_lambda * habitat[i])
              + binomial_logit_lpmf(y[i] | max_y[i] + j - 1, logit_p);
    }
    target += log_sum_exp(lp);
  }
}
