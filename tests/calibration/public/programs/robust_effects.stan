// Schools with effects from a Student distribution: a few are far from all others.
data {
  int<lower=1> N;
  int<lower=1> J;
  array[N] int<lower=1, upper=J> school;
  vector[N] x;
  vector[N] y;
  real<lower=1> df;
}
parameters {
  real mu;
  real beta;
  real<lower=0> tau;
  real<lower=0> sigma;
  vector[J] eta;
}
transformed parameters {
  vector[J] theta = mu + tau * eta;
}
model {
  mu ~ normal(0, 1);
  beta ~ normal(0, 1);
  tau ~ normal(0, 0.7);
  sigma ~ gamma(4, 4);
  eta ~ student_t(df, 0, 1);
  y ~ normal(theta[school] + beta * x, sigma);
}
