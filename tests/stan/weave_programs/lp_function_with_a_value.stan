// Every mention of it is an increment.
functions {
  real f_lp(real m) { m ~ normal(0, 1); return m; }
}
data {
  int<lower=1> N; vector[N] y; vector[N] x; vector[N] z; array[N] int<lower=0> c;
  array[N] int<lower=1, upper=3> g;
}
parameters {
  real mu; real nu; real<lower=0> s;
}
model {
  y ~ normal(f_lp(mu), exp(f_lp(nu)));
}
