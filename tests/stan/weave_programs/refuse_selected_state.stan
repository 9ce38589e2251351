// refuse: \S+ previous observation|carr|keeps
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
  real last = 0;
  for (k in 1 : K) {
    y[when[k]] ~ normal(phi + 0.1 * last, 1);
    last = y[when[k]];
  }
}
