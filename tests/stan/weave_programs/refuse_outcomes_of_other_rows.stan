// refuse: \d+ .*say which with obs=.*
// Two outcomes on rows of their own: neither count is the other.
data {
  int<lower=1> N_a;
  int<lower=1> N_b;
  vector[N_a] y_a;
  array[N_b] int y_b;
}
parameters {
  real mu;
  real eta;
}
model {
  y_a ~ normal(mu, 1);
  y_b ~ poisson_log(eta + mu);
}
