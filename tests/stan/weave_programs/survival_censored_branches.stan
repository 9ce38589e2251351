// data: {"N": 14, "v": "rng.integers(0, 2, N)"}
data { int N; vector<lower=0>[N] t; array[N] int v; vector[N] x; }
parameters { real<lower=0> shape; real a; real b; }
model {
  for (i in 1:N) {
    if (v[i] == 0) target += weibull_lccdf(t[i] | shape, exp(a + b * x[i]));
    else target += weibull_lpdf(t[i] | shape, exp(a + b * x[i]));
  }
  shape ~ gamma(2, 1);
}
