// refuse: \d+ .*sums over all observations.*
// What is read was written five passes before.
data {
  int<lower=1> N; vector[N] y; vector[N] x; vector[N] z; array[N] int<lower=0> c;
  array[N] int<lower=1, upper=3> g;
}
parameters {
  real mu; real nu; real<lower=0> s;
}
model {
  real v0 = 0; real v1 = 0; real v2 = 0; real v3 = 0; real v4 = 0;
  for (k in 1:6) { v0 = v1; v1 = v2; v2 = v3; v3 = v4; v4 = dot_product(z, rep_vector(mu, N)); }
  mu ~ normal(v0, 1);
  y ~ normal(mu, s);
}
