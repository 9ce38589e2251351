// One compartment with absorption of first order; clearance and volume of each patient.
data {
  int<lower=1> N;
  int<lower=1> J;
  array[N] int<lower=1, upper=J> patient;
  vector<lower=0>[N] hours;
  vector<lower=0>[J] dose;
  vector<lower=0>[N] conc;
}
parameters {
  real log_cl;
  real log_v;
  real<lower=0> ka;
  vector<lower=0>[2] omega;
  matrix[2, J] z;
  real<lower=0> sigma;
}
model {
  log_cl ~ normal(1, 0.3);
  log_v ~ normal(3.5, 0.3);
  ka ~ lognormal(0.4, 0.3);
  omega ~ normal(0, 0.3);
  to_vector(z) ~ std_normal();
  sigma ~ normal(0, 0.3);
  for (n in 1:N) {
    int j = patient[n];
    real cl = exp(log_cl + omega[1] * z[1, j]);
    real v = exp(log_v + omega[2] * z[2, j]);
    real ke = cl / v;
    real mean_conc = dose[j] * ka / (v * (ka - ke)) * (exp(-ke * hours[n]) - exp(-ka * hours[n]));
    conc[n] ~ lognormal(log(mean_conc), sigma);
  }
}
