// Which flights arrive more than 15 minutes late? A logistic regression on the hour of departure,
// with an intercept for every carrier. It is written for all rows, without weights.
data {
  int<lower=0> N;
  int<lower=1> J;
  vector[N] hour; // from 1 p.m.
  array[N] int<lower=1, upper=J> carrier;
  array[N] int<lower=0, upper=1> late;
}
parameters {
  real alpha;
  real beta;
  real<lower=0> tau;
  vector[J] a;
}
model {
  alpha ~ normal(0, 2);
  beta ~ normal(0, 1);
  tau ~ normal(0, 1);
  a ~ normal(alpha, tau);
  late ~ bernoulli_logit(a[carrier] + beta * hour);
}
generated quantities {
  array[N] int late_rep = bernoulli_logit_rng(a[carrier] + beta * hour);
}
