// refuse: \S+ .
data {
  int<lower=1> N;
  int<lower=0> K;
  array[K] int<lower=1, upper=N> when;
  vector[N] y;
}
parameters {
  real phi;
}
model {
  for (k in 1 : K) {
    if (y[when[k]] > 1) break;
    y[when[k]] ~ normal(phi, 1);
  }
}
