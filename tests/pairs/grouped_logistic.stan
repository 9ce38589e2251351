// logistic regression with group effects, by hand: centred
data {
  int<lower=1> N;
  int<lower=1> D;
  int<lower=1> J;
  matrix[N, D] X;
  array[N] int<lower=1, upper=J> g;
  array[N] int<lower=0, upper=1> y;
}
parameters {
  real alpha;
  vector[D] beta;
  real<lower=0> tau;
  vector[J] effect;
}
model {
  alpha ~ normal(0, 5);
  beta ~ normal(0, 2.5);
  tau ~ normal(0, 1);
  effect ~ normal(0, tau);
  y ~ bernoulli_logit(alpha + effect[g] + X * beta);
}
