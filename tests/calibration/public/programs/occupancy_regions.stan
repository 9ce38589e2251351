// Detections among K visits: occupancy differs between regions, detection by effort.
data {
  int<lower=1> M;
  int<lower=1> K;
  int<lower=1> n_region;
  array[M] int<lower=0, upper=K> detections;
  array[M] int<lower=1, upper=n_region> region;
  vector[M] elevation;
  vector[M] effort;
}
parameters {
  real a0;
  real a_elev;
  real p0;
  real p_effort;
  real<lower=0> sd_region;
  vector[n_region] z_region;
}
model {
  a0 ~ normal(0, 0.6);
  a_elev ~ normal(0, 0.6);
  p0 ~ normal(-0.3, 0.4);
  p_effort ~ normal(0.3, 0.3);
  sd_region ~ normal(0, 0.8);
  z_region ~ std_normal();
  for (i in 1:M) {
    real psi = inv_logit(a0 + a_elev * elevation[i] + sd_region * z_region[region[i]]);
    real p = inv_logit(p0 + p_effort * effort[i]);
    if (detections[i] > 0) {
      target += log(psi) + binomial_lpmf(detections[i] | K, p);
    } else {
      target += log(psi * (1 - p)^K + (1 - psi));
    }
  }
}
