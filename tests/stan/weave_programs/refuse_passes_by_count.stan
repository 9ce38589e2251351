// refuse: \d+ .*runs over part of the observations.*
// Two variables hand each other a count of passes, a share of N.
data {
  int<lower=1> N; vector[N] y; vector[N] x; vector[N] z; array[N] int<lower=0> c;
  array[N] int<lower=1, upper=3> g;
}
parameters {
  real mu; real nu; real<lower=0> s;
}
model {
  real q = 0; real r = 0;
  for (k in 1:(N %/% 4)) { q = r + 1; r = q; }
  nu ~ normal(q, 1);
  y ~ normal(mu + nu * x, s);
}
