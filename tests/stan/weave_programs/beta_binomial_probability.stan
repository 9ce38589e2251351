// data: {"N": 12, "n": 9, "y": "rng.integers(0, 9, N)"}
data { int N; int n; array[N] int<lower=0> y; }
parameters { real<lower=0, upper=1> mu; real<lower=0> phi; }
model { y ~ beta_binomial(n, mu * phi, (1 - mu) * phi); phi ~ gamma(1, 0.1); }
