// refuse: 8 theta.*integrate
data {
  int<lower=0> J;
  array[J] real y;
  array[J] real<lower=0> sigma;
}
parameters {
  vector[J] theta; real mu; real<lower=0> tau; }
model { theta ~ normal(mu, tau); y ~ normal(theta, sigma); }
