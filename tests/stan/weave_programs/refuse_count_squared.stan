// refuse: 12 .*computed from data rows
// N twice is not one term for each row.
data {
  int<lower=1> N;
  vector[N] y;
}
parameters {
  real mu;
  real<lower=0> s;
}
model {
  target += -0.5 * N * (N + 1) * log(s);
  y ~ normal(mu, s);
}
