// Parking tickets: districts and kinds of vehicle are crossed, patrols are the exposure.
data {
  int<lower=1> N;
  int<lower=1> n_district;
  int<lower=1> n_kind;
  array[N] int<lower=1, upper=n_district> district;
  array[N] int<lower=1, upper=n_kind> kind;
  vector[N] log_patrols;
  array[N] int<lower=0> tickets;
}
parameters {
  real base;
  vector[n_kind] z_kind;
  vector[n_district] u_district;
  real<lower=0> s_kind;
  real<lower=0> s_district;
  real<lower=0> size_;
}
transformed parameters {
  vector[n_kind] u_kind = s_kind * z_kind;
}
model {
  vector[N] eta = log_patrols + base;
  for (n in 1:N) {
    eta[n] += u_kind[kind[n]] + u_district[district[n]];
  }
  base ~ normal(0, 1);
  s_kind ~ normal(0, 0.5);
  z_kind ~ std_normal();
  s_district ~ exponential(2);
  u_district ~ normal(0, s_district);
  size_ ~ gamma(3, 1);
  tickets ~ neg_binomial_2_log(eta, size_);
}
