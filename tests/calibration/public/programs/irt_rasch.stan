// Long form of right and wrong answers: a Rasch model, centred as in the handbook.
data {
  int<lower=1> J;  // persons
  int<lower=1> K;  // items
  int<lower=1> N;  // answers
  array[N] int<lower=1, upper=J> jj;
  array[N] int<lower=1, upper=K> kk;
  array[N] int<lower=0, upper=1> y;
}
parameters {
  real delta;
  vector[J] alpha;
  vector[K] beta;
  real<lower=0> sigma_beta;
}
model {
  delta ~ normal(0.5, 0.5);
  alpha ~ std_normal();
  sigma_beta ~ lognormal(-0.3, 0.3);
  beta ~ normal(0, sigma_beta);
  for (n in 1:N)
    y[n] ~ bernoulli_logit(alpha[jj[n]] - beta[kk[n]] + delta);
}
