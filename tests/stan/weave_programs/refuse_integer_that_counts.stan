// refuse: \d+ .*.*
// Weights are real, and so is what they add up.
data {
  int<lower=1> N; vector[N] y; vector[N] x; vector[N] z; array[N] int<lower=0> c;
  array[N] int<lower=1, upper=3> g;
}
parameters {
  real mu; real nu; real<lower=0> s;
}
model {
  int k = 0;
  for (n in 1:N) k += 1;
  target += k * normal_lpdf(mu | 0, 1);
  y ~ normal(mu + nu * x, s);
}
