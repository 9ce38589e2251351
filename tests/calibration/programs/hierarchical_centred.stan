// Varying intercepts, centred.
data {
  int<lower=0> N;
  int<lower=1> J;
  array[N] int<lower=1, upper=J> g;
  vector[N] x;
  array[N] int<lower=0, upper=1> y;
}
parameters {
  real mu;
  real beta;
  real<lower=0> tau;
  vector[J] a;
}
model {
  mu ~ normal(0, 2);
  beta ~ normal(0, 2.5);
  tau ~ normal(0, 1);
  a ~ normal(mu, tau);
  y ~ bernoulli_logit(a[g] + beta * x);
}
