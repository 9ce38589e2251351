// Negative binomial regression, unknown dispersion.
data {
  int<lower=0> N;
  int<lower=0> D;
  matrix[N, D] X;
  array[N] int<lower=0> y;
}
parameters {
  real alpha;
  vector[D] beta;
  real<lower=0> phi;
}
model {
  alpha ~ normal(0, 5);
  beta ~ normal(0, 2.5);
  phi ~ gamma(2, 0.5);
  y ~ neg_binomial_2_log(alpha + X * beta, phi);
}
