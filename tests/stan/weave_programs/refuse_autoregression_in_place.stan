// refuse: \d+ .
// mu[n - 1] has been changed before mu[n] is: row n depends on all rows before it.
data { int N; vector[N] x; vector[N] y; }
parameters { real a; real b; real phi; real<lower=0> s; }
model {
  vector[N] mu = a + b * x;
  for (n in 2:N) mu[n] += phi * (y[n - 1] - mu[n - 1]);
  y ~ normal(mu, s);
}
