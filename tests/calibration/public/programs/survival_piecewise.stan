// Piecewise constant hazards: a row is a person in an interval, with the time spent in it.
data {
  int<lower=1> N;
  int<lower=1> T;
  array[N] int<lower=1, upper=T> interval;
  vector<lower=0>[N] at_risk;
  array[N] int<lower=0, upper=1> died;
  matrix[N, 3] X;
}
parameters {
  real log_h1;
  vector[T - 1] steps;
  real<lower=0> smooth;
  vector[3] beta;
}
transformed parameters {
  vector[T] log_h;
  log_h[1] = log_h1;
  for (t in 2:T) {
    log_h[t] = log_h[t - 1] + smooth * steps[t - 1];
  }
}
model {
  log_h1 ~ normal(-2, 0.5);
  steps ~ std_normal();
  smooth ~ exponential(4);
  beta ~ normal(0, 0.4);
  died ~ poisson_log(log_h[interval] + X * beta + log(at_risk));
}
