// Severity of claims: gamma with a log link, brands of cars and regions.
data {
  int<lower=1> N;
  int<lower=1> n_brand;
  int<lower=1> n_area;
  vector<lower=0>[N] amount;
  array[N] int<lower=1, upper=n_brand> brand;
  array[N] int<lower=1, upper=n_area> area;
  matrix[N, 3] X;
}
parameters {
  real mu;
  vector[3] beta;
  real<lower=0> shape;
  vector[n_brand] z_brand;
  vector[n_area] z_area;
  real<lower=0> s_brand;
  real<lower=0> s_area;
}
model {
  vector[N] eta = mu + X * beta + s_brand * z_brand[brand] + s_area * z_area[area];
  mu ~ normal(2, 0.7);
  beta ~ normal(0, 0.4);
  shape ~ gamma(6, 4);
  z_brand ~ std_normal();
  z_area ~ std_normal();
  s_brand ~ normal(0, 0.4);
  s_area ~ normal(0, 0.4);
  amount ~ gamma(shape, shape * exp(-eta));
}
