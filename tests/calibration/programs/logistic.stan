// Logistic regression: well behaved, nearly separable or with rare events, as the data are.
data {
  int<lower=0> N;
  int<lower=0> D;
  matrix[N, D] X;
  array[N] int<lower=0, upper=1> y;
}
parameters {
  real alpha;
  vector[D] beta;
}
model {
  alpha ~ normal(0, 10);
  beta ~ normal(0, 5);
  y ~ bernoulli_logit(alpha + X * beta);
}
