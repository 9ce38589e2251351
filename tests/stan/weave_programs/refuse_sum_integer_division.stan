// refuse: 12 .*computed from data rows
// The sum of integers divided by an integer drops the remainder.
data {
  int<lower=1> N;
  array[N] int<lower=0> y;
}
parameters {
  real<lower=0> r;
}
model {
  y ~ poisson(r);
  target += sum(y) / 2 * log(r);
}
