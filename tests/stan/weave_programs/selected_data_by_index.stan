// data: {"N": 12, "N1": 5, "y": "rng.exponential(size=N) + 0.1", "i1": "rng.permutation(N)[:N1] + 1"}
data { int N; vector<lower=0>[N] y; vector[N] x; array[N] int<lower=0, upper=1> zero;
  int N1; array[N1] int i1; }
transformed data { vector[N1] y1 = y[i1]; vector[N1] x1 = x[i1]; }
parameters { real a; real b; real c; real d; real<lower=0> s; }
model {
  a ~ normal(0, 1); b ~ normal(0, 1); c ~ normal(0, 1); d ~ normal(0, 1); s ~ exponential(1);
  zero ~ bernoulli_logit(a + b * x);
  y1 ~ lognormal(c + d * x1, s);
}
