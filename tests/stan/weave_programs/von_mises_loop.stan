// data: {"N": 12, "y": "rng.uniform(-3, 3, N)"}
data { int N; vector[N] y; vector[N] x; }
parameters { real<lower=-3, upper=3> mu; real b; real<lower=0, upper=20> kappa; }
model { y ~ von_mises(mu + 2 * atan(b * x), kappa); kappa ~ exponential(1); }
