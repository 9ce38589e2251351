// Machines that failed and machines that still run are in tables of their own.
data {
  int<lower=0> failed;
  int<lower=0> running;
  int<lower=1> D;
  vector<lower=0>[failed] hours_failed;
  vector<lower=0>[running] hours_running;
  matrix[failed, D] x_failed;
  matrix[running, D] x_running;
}
parameters {
  real<lower=0> wear;
  real rate;
  vector[D] b;
}
model {
  vector[failed] scale_failed = exp(-(rate + x_failed * b) / wear);
  vector[running] scale_running = exp(-(rate + x_running * b) / wear);
  wear ~ gamma(6, 5);
  rate ~ normal(1, 0.5);
  b ~ normal(0, 0.4);
  hours_failed ~ weibull(wear, scale_failed);
  target += weibull_lccdf(hours_running | wear, scale_running);
}
