// Answers of people to items, one of all pairs in each row: a Rasch model written by hand.
data {
  int<lower=1> N;
  int<lower=1> J;
  int<lower=1> K;
  array[N] int<lower=1, upper=J> person;
  array[N] int<lower=1, upper=K> item;
  array[N] int<lower=0, upper=1> y;
}
parameters {
  real mu;
  vector[J] theta;
  vector[K] beta;
  real<lower=0> sd_theta;
  real<lower=0> sd_beta;
}
model {
  mu ~ normal(0, 3);
  sd_theta ~ normal(0, 2);
  sd_beta ~ normal(0, 2);
  theta ~ normal(0, sd_theta);
  beta ~ normal(0, sd_beta);
  y ~ bernoulli_logit(mu + theta[person] - beta[item]);
}
