// Weekly cases of regions: trend, two harmonics, and a level of each region.
data {
  int<lower=1> W;
  int<lower=1> R;
  array[W] int<lower=0> cases;
  array[W] int<lower=1, upper=R> region;
  vector[W] week;
  vector[W] years;
  real<lower=0> prior_scale;
}
transformed data {
  matrix[W, 5] F;
  F[, 1] = years;
  F[, 2] = sin(2 * pi() * week / 52);
  F[, 3] = cos(2 * pi() * week / 52);
  F[, 4] = sin(4 * pi() * week / 52);
  F[, 5] = cos(4 * pi() * week / 52);
}
parameters {
  vector[5] gamma;
  real level;
  real<lower=0> spread;
  vector<offset=level, multiplier=spread>[R] region_level;
}
model {
  gamma ~ normal(0, prior_scale);
  level ~ normal(1.5, 0.5);
  spread ~ gamma(4, 8);
  region_level ~ normal(level, spread);
  target += poisson_log_glm_lpmf(cases | F, region_level[region], gamma);
}
