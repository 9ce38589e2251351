// data: {"N": 12, "y": "rng.integers(1, 5, N)"}
data { int N; array[N] int y; }
parameters { real<lower=0> lambda; }
model { for (n in 1:N) y[n] ~ poisson(lambda) T[1, 8]; }
