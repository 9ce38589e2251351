// refuse: \d+ .*rejected by a condition on all observations.*
// A support that all rows together have.
data {
  int<lower=1> N; vector[N] y; vector[N] x; vector[N] z; array[N] int<lower=0> c;
  array[N] int<lower=1, upper=3> g;
}
parameters {
  real mu; real nu; real<lower=0> s;
}
model {
  vector[N] m = mu * z;
  if (max(m) > 1) reject("no");
  y ~ normal(mu + nu * x, s);
}
