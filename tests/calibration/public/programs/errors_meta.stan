// Estimates with standard errors, of outcomes within studies: what is unexplained is added.
data {
  int<lower=1> N;
  int<lower=1> S;
  vector[N] est;
  vector<lower=0>[N] se;
  array[N] int<lower=1, upper=S> study;
  vector[N] year;
}
parameters {
  real mu;
  real b_year;
  real<lower=0> tau_study;
  real<lower=0> tau_within;
  vector[S] u;
}
model {
  mu ~ normal(0.3, 0.5);
  b_year ~ normal(0, 0.3);
  tau_study ~ normal(0, 0.5);
  tau_within ~ normal(0, 0.3);
  u ~ std_normal();
  est ~ normal(mu + b_year * year + tau_study * u[study], sqrt(square(se) + square(tau_within)));
}
