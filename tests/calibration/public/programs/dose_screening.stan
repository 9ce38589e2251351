// A screen of compounds: inhibition curves with a half point and a floor of each compound.
data {
  int<lower=1> N;
  int<lower=1> n_comp;
  array[N] int<lower=1, upper=n_comp> comp;
  vector[N] log10_dose;
  vector[N] activity;
}
parameters {
  real<lower=0> ceiling;
  vector[n_comp] floor_;
  vector[n_comp] half;
  real mean_half;
  real<lower=0> sd_half;
  real<lower=0> hill;
  real<lower=0> sigma;
}
model {
  ceiling ~ normal(1, 0.1);
  floor_ ~ normal(0.25, 0.1);
  mean_half ~ normal(-6, 0.5);
  sd_half ~ gamma(6, 8);
  half ~ normal(mean_half, sd_half);
  hill ~ lognormal(0, 0.15);
  sigma ~ exponential(10);
  for (n in 1:N) {
    int c = comp[n];
    real left = inv(1 + pow(10, hill * (log10_dose[n] - half[c])));
    activity[n] ~ normal(floor_[c] + (ceiling - floor_[c]) * left, sigma);
  }
}
