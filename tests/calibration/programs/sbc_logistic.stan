// Logistic regression with the prior that parameters are drawn from.
data {
  int<lower=0> N;
  matrix[N, 2] X;
  array[N] int<lower=0, upper=1> y;
}
parameters {
  real alpha;
  vector[2] beta;
}
model {
  alpha ~ normal(0, 1);
  beta ~ normal(0, 1);
  y ~ bernoulli_logit(alpha + X * beta);
}
