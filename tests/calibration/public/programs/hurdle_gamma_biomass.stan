// Biomass of species in plots: absent, or present with a gamma amount.
data {
  int<lower=1> N;
  int<lower=1> n_species;
  vector<lower=0>[N] mass;
  vector[N] light;
  array[N] int<lower=1, upper=n_species> species;
}
parameters {
  real<lower=0> shape;
  real absent_0;
  real absent_light;
  real log_mean;
  real b_light;
  real<lower=0> sd_species;
  vector[n_species] z_species;
}
model {
  shape ~ gamma(5, 3);
  log_mean ~ normal(0, 1);
  sd_species ~ exponential(2);
  b_light ~ normal(0, 0.5);
  absent_0 ~ normal(-0.5, 0.7);
  absent_light ~ normal(0, 0.7);
  z_species ~ std_normal();
  for (n in 1:N) {
    real absent = absent_0 + absent_light * light[n];
    if (mass[n] > 0) {
      real m = log_mean + sd_species * z_species[species[n]] + b_light * light[n];
      target += log1m_inv_logit(absent) + gamma_lpdf(mass[n] | shape, shape * exp(-m));
    } else {
      target += log_inv_logit(absent);
    }
  }
}
