// refuse: 15 .*picks observations by `b`.*
// The outcome of selected rows with the predictor of the rows before them, over all and over K.
data {
  int<lower=1> N;
  vector[N] y;
  vector[N] x;
  array[N] int<lower=1, upper=N> b;
}
parameters {
  real beta;
  real<lower=0> s;
}
model {
  vector[N] mu = beta * x;
  y ~ normal(mu[b], s);
  y[b] ~ normal(beta, s);
}
