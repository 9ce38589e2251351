// A regression of medians, written by hand.
data {
  int<lower=1> N;
  int<lower=1> D;
  matrix[N, D] X;
  vector[N] y;
}
parameters {
  real a;
  vector[D] b;
  real<lower=0> sigma;
}
model {
  a ~ normal(0, 5);
  b ~ normal(0, 2);
  sigma ~ exponential(1);
  y ~ double_exponential(a + X * b, sigma);
}
