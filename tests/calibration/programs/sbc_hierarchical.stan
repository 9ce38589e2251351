// Groups of normal outcomes, non-centred.
data {
  int<lower=0> N;
  int<lower=1> J;
  array[N] int<lower=1, upper=J> g;
  vector[N] y;
}
parameters {
  real mu;
  real<lower=0> tau;
  real<lower=0> sigma;
  vector[J] z;
}
model {
  mu ~ normal(0, 1);
  tau ~ normal(0, 1);
  sigma ~ lognormal(0, 0.5);
  z ~ std_normal();
  y ~ normal(mu + tau * z[g], sigma);
}
