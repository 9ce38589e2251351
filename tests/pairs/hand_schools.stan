// Counts in schools within districts, both non-centred by hand.
data {
  int<lower=1> N;
  int<lower=1> D;
  int<lower=1> S;
  array[N] int<lower=1, upper=D> district;
  array[N] int<lower=1, upper=S> school;
  vector[N] x;
  array[N] int<lower=0> y;
}
parameters {
  real a;
  real b;
  vector[D] z_district;
  vector[S] z_school;
  real<lower=0> sd_district;
  real<lower=0> sd_school;
  real<lower=0> phi;
}
model {
  a ~ normal(0, 2);
  b ~ normal(0, 1);
  z_district ~ std_normal();
  z_school ~ std_normal();
  sd_district ~ normal(0, 1);
  sd_school ~ normal(0, 1);
  phi ~ gamma(2, 0.5);
  vector[N] eta = a + b * x + sd_district * z_district[district] + sd_school * z_school[school];
  y ~ neg_binomial_2_log(eta, phi);
}
