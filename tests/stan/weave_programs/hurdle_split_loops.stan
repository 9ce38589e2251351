// data: {"N": 9}
data { int N; array[N] int<lower=0> y; }
transformed data { array[N] int<lower=0, upper=1> z; for (n in 1:N) z[n] = y[n] > 0; }
parameters { real a; real<lower=0> l; }
model { z ~ bernoulli_logit(a); for (n in 1:N) if (y[n] > 0) target += poisson_lpmf(y[n] | l) - poisson_lccdf(0 | l); }
