// data: {"N": 9, "K": 6, "when": [2, 9, 4, 4, 7, 3]}
// The numbers are the observations: of each, the row and the one before it are read.
data {
  int<lower=1> N;
  int<lower=0> K;
  array[K] int<lower=2, upper=N> when;
  vector[N] y;
}
parameters {
  real phi;
}
model {
  for (k in 1 : K) {
    y[when[k]] ~ normal(phi * y[when[k] - 1], 1);
  }
}
