// refuse: \d+ .*keeps a value of the previous observation.*
// h[k] is read, then written: it is the previous row that is read.
data {
  int<lower=1> N; vector[N] y; vector[N] x; vector[N] z; array[N] int<lower=0> c;
  array[N] int<lower=1, upper=3> g;
}
parameters {
  real mu; real nu; real<lower=0> s;
}
model {
  vector[3] h = [mu, nu, 0]';
  for (n in 1:N) { real t = 0; h[1] = 0; for (k in 2:3) { t += h[k]; h[k] = x[n] * k; } y[n] ~ normal(t, s); }
}
