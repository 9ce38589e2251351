// A prior as often as there are rows: each adds it with its weight.
functions {
  void f_lp(real m) { m ~ normal(0, 1); }
}
data {
  int<lower=1> N; vector[N] y; vector[N] x; vector[N] z; array[N] int<lower=0> c;
  array[N] int<lower=1, upper=3> g;
}
parameters {
  real mu; real nu; real<lower=0> s;
}
model {
  for (n in 1:N) f_lp(mu);
  y ~ normal(mu + nu * x, s);
}
