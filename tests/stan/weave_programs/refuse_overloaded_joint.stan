// refuse: \d+ .*.*
// The overload for these arguments is a density of the sums.
functions {
  real ll_lpdf(vector y, vector m) { return normal_lpdf(sum(y) | sum(m), 1); }
  real ll_lpdf(vector y, real m) { return normal_lpdf(y | m, 1); }
}
data {
  int<lower=1> N; vector[N] y; vector[N] x; vector[N] z; array[N] int<lower=0> c;
  array[N] int<lower=1, upper=3> g;
}
parameters {
  real mu; real nu; real<lower=0> s;
}
model {
  y ~ ll(mu + nu * x);
}
