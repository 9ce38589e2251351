// refuse: 10 sums several
data { int N; array[N] int<lower=0> y; }
transformed data {
  int n_zero = 0;
  array[N] int y_nz;
  for (n in 1:N) { if (y[n] == 0) n_zero += 1; else y_nz[n - n_zero] = y[n]; }
}
parameters { real<lower=0, upper=1> theta; real<lower=0> lambda; }
model {
  n_zero ~ binomial(N, theta);
  y_nz[1:(N - n_zero)] ~ poisson(lambda);
}
