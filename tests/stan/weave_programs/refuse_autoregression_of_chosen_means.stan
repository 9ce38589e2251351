// refuse: 7 `mu\[n - 1\]` is read in the loop over `n`
data { int N; vector[N] y; vector[N] x; }
parameters { real a; real b; real r; real<lower=0> s; }
model {
  vector[N] mu;
  for (n in 1:N) if (x[n] > 0) mu[n] = a; else mu[n] = a + b * x[n];
  for (n in 2:N) y[n] ~ normal(mu[n] + r * (y[n - 1] - mu[n - 1]), s);
}
