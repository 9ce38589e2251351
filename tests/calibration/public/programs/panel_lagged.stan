// Patients over time: an outcome depends on the one before, which is a column of its own.
data {
  int<lower=1> N;
  int<lower=1> P;
  int<lower=1> T;
  array[T] int<lower=1> subj;
  array[T] real y;
  vector[T] y_lag;
  matrix[T, P] X;
}
parameters {
  vector[P] beta;
  vector[N] b;
  real<lower=0> eta;
  real<lower=0> sigma_e;
  real mub;
  real<lower=-1, upper=1> phi;
}
model {
  vector[T] mu;
  mub ~ normal(0, 1);
  eta ~ inv_gamma(5, 3);
  b ~ normal(mub, eta);
  beta ~ normal(0, 0.5);
  sigma_e ~ inv_gamma(5, 4);
  phi ~ normal(0.4, 0.2);
  mu = X * beta + b[subj] + phi * y_lag;
  y ~ normal(mu, sigma_e);
}
