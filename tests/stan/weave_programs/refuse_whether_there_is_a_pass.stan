// refuse: \d+ .*runs over part of the observations.*
// Whether q is 2.5 depends on the number of rows.
data {
  int<lower=1> N; vector[N] y; vector[N] x; vector[N] z; array[N] int<lower=0> c;
  array[N] int<lower=1, upper=3> g;
}
parameters {
  real mu; real nu; real<lower=0> s;
}
model {
  real q = 0;
  for (k in 1:(N %/% 4)) q = 2.5;
  nu ~ normal(q, 1);
  y ~ normal(mu + nu * x, s);
}
