// Log radon in houses: counties have an intercept and a slope of the floor, and uranium.
data {
  int<lower=1> N;
  int<lower=1> J;
  array[N] int<lower=1, upper=J> county;
  vector[J] u;
  vector[N] floor_;
  vector[N] log_radon;
}
parameters {
  vector[J] a_raw;
  vector[J] b_raw;
  real g_0;
  real g_u;
  real mu_b;
  real<lower=0> sigma_a;
  real<lower=0> sigma_b;
  real<lower=0> sigma_y;
}
transformed parameters {
  vector[J] a;
  vector[J] b;
  for (j in 1:J) {
    a[j] = g_0 + g_u * u[j] + sigma_a * a_raw[j];
    b[j] = mu_b + sigma_b * b_raw[j];
  }
}
model {
  vector[N] y_hat;
  for (i in 1:N)
    y_hat[i] = a[county[i]] + floor_[i] * b[county[i]];
  a_raw ~ normal(0, 1);
  b_raw ~ normal(0, 1);
  g_0 ~ normal(1, 0.5);
  g_u ~ normal(0.5, 0.4);
  mu_b ~ normal(-0.5, 0.4);
  sigma_a ~ normal(0, 0.5);
  sigma_b ~ normal(0, 0.5);
  sigma_y ~ normal(0, 1);
  log_radon ~ normal(y_hat, sigma_y);
}
