// late flights, airports as a[g] with their scale
data {
  int<lower=1> N;
  int<lower=1> D;
  int<lower=1> J;
  matrix[N, D] X;
  array[N] int<lower=1, upper=J> g;
  array[N] int<lower=0, upper=1> y;
  real<lower=0> beta_scale;
}
parameters {
  real alpha;
  vector[D] beta;
  real<lower=0> tau;
  vector[J] a;
}
model {
  alpha ~ normal(0, 5);
  beta ~ normal(0, beta_scale);
  tau ~ normal(0, 1);
  a ~ normal(0, tau);
  y ~ bernoulli_logit(alpha + a[g] + X * beta);
}
