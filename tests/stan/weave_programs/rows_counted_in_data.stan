// data: {"N": 11, "y": "np.resize([0, 3, 0, 1, 2], N)"}
// Numbers of rows, of which the likelihood is a sum over rows.
data { int N; array[N] int<lower=0> y; array[N] int<lower=0, upper=1> z; }
transformed data {
  int zeros = 0;
  int P = 0;
  int ones = sum(z);
  array[N] int J;
  for (n in 1:N) {
    if (y[n] == 0) { zeros += 1; continue; }
    P += 1;
    J[P] = n;
  }
}
parameters { real<lower=0, upper=1> p; real<lower=0> l; real<lower=0, upper=1> q; }
model {
  p ~ beta(2, 2); l ~ gamma(2, 1); q ~ beta(1, 2);
  target += zeros * log_sum_exp(log(p), log1m(p) - l) + P * log1m(p);
  target += ones * log(q) + (N - ones) * log1m(q);
  target += poisson_lpmf(y[J[1:P]] | l);
}
