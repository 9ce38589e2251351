// refuse: \d+ .
data { int N; vector[N] y; }
parameters { real q; }
model {
  real m = 0;
  vector[N] mu;
  for (n in 1:N) { mu[n] = m; m = q * y[n]; }
  y ~ normal(mu, 2);
}
