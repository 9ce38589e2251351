// data: {"N": 12}
data { int N; vector[N] x; vector[N] y; }
parameters { real a; real b; real<lower=0> s; }
model {
  a ~ normal(0, 5);
  b ~ normal(0, 5);
  s ~ exponential(1);
  for (n in 1:N) {
    if (x[n] > 0.5) continue;
    y[n] ~ normal(a + b * x[n], s);
  }
}
