// data: {"N": 8}
data { int N; vector[N] x; vector[N] y; }
parameters { real a; real b; real<lower=0> s; }
model {
  a ~ normal(mean(y), 2.5 * sd(y)); b ~ normal(0, 1); s ~ exponential(1 / sd(y));
  y ~ normal(a + b * x, s);
}
