// refuse: 6 the size of `jj` is computed from the number of observations: .*int n_jj;
data {
  int<lower=1> N;
  int<lower=0> K;
  array[K] int<lower=1, upper=N> ii;
  array[N - K] int<lower=1, upper=N> jj;
  vector<lower=0>[N] t;
}
parameters {
  real<lower=0> rate;
}
model {
  t[jj] ~ exponential(rate);
  for (k in 1 : K) {
    target += exponential_lccdf(t[ii[k]] | rate);
  }
}
