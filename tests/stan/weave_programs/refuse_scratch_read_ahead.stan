// refuse: \d+ .*keeps a value of the previous observation.*
// h[2] is read in the first pass, before this row has written it.
data {
  int<lower=1> N; vector[N] y; vector[N] x; vector[N] z; array[N] int<lower=0> c;
  array[N] int<lower=1, upper=3> g;
}
parameters {
  real mu; real nu; real<lower=0> s;
}
model {
  vector[3] h = [mu, nu, 0]';
  for (n in 1:N) { h[3] = x[n]; for (k in 1:2) h[k] = h[k + 1] * nu; y[n] ~ normal(h[1], s); }
}
