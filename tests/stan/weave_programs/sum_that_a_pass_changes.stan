// data: {"N": 9}
// The second pass adds another sum than the first.
data {
  int<lower=1> N; vector[N] y; vector[N] x; vector[N] z; array[N] int<lower=0> c;
  array[N] int<lower=1, upper=3> g;
}
parameters {
  real mu; real nu; real<lower=0> s;
}
model {
  real l = normal_lpdf(y | mu, 1);
  for (k in 1:3) { target += l; l = normal_lpdf(y | nu, 1); }
}
