// Zero-inflated Poisson regression.
data {
  int<lower=0> N;
  vector[N] x;
  array[N] int<lower=0> y;
}
parameters {
  real alpha;
  real beta;
  real<lower=0, upper=1> theta;
}
model {
  alpha ~ normal(0, 5);
  beta ~ normal(0, 2.5);
  theta ~ beta(1, 1);
  for (n in 1:N) {
    if (y[n] == 0)
      target += log_sum_exp(bernoulli_lpmf(1 | theta),
                            bernoulli_lpmf(0 | theta) + poisson_log_lpmf(0 | alpha + beta * x[n]));
    else
      target += bernoulli_lpmf(0 | theta) + poisson_log_lpmf(y[n] | alpha + beta * x[n]);
  }
}
