// Firms over years: errors of a firm are autoregressive, rows are in the order of time.
data {
  int<lower=1> N;
  vector[N] y;
  vector[N] x;
  vector[N] size;
  array[N] int<lower=0, upper=1> first;
}
parameters {
  real a;
  real b_x;
  real b_size;
  real<lower=-1, upper=1> rho;
  real<lower=0> sigma;
}
model {
  vector[N] m = a + b_x * x + b_size * size;
  a ~ normal(0, 1);
  b_x ~ normal(0, 1);
  b_size ~ normal(0, 1);
  rho ~ normal(0.5, 0.2);
  sigma ~ normal(0, 1);
  for (n in 1:N) {
    if (first[n] == 1)
      y[n] ~ normal(m[n], sigma / sqrt(1 - square(rho)));
    else
      y[n] ~ normal(m[n] + rho * (y[n - 1] - m[n - 1]), sigma);
  }
}
