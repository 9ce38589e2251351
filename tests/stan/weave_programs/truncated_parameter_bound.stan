// data: {"N": 12, "y": "rng.uniform(3, 8, N)"}
data { int N; vector[N] y; }
parameters { real mu; real<lower=0> sigma; real<lower=0, upper=1> c; }
model { mu ~ normal(0, 1) T[-4, 4]; for (n in 1:N) y[n] ~ normal(mu, sigma) T[c, ]; }
