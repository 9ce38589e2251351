// data: {"N": 12, "G": 3}
data { int N; int G; array[N] int<lower=1, upper=G> g; array[N] real y; array[N] real x; }
parameters { array[G] real a; array[G, 2] real b; real<lower=0> s; }
model {
  array[N] real mu;
  for (i in 1:N) {
    real slope = b[g[i], 1] + b[g[i], 2] * x[i];
    mu[i] = a[g[i]] + slope * x[i];
  }
  for (k in 1:G) { a[k] ~ normal(0, 1); b[k] ~ normal(0, 1); }
  y ~ normal(mu, s);
}
