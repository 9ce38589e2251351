// data: {"N": 9}
data { int N; vector[N] y; vector[N] x; }
parameters { real a; real b; real r; real<lower=0> s; }
model {
  vector[N] mu = a + b * x;
  for (n in 2:N) y[n] ~ normal(mu[n] + r * (y[n - 1] - mu[n - 1]), s);
}
