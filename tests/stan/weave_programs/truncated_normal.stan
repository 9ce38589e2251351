// data: {"N": 12, "U": 2.5, "L": -3.0, "y": "rng.uniform(-2, 2, N)"}
data { int N; real U; real L; array[N] real<lower=L, upper=U> y; }
parameters { real mu; real<lower=0> sigma; }
model { for (n in 1:N) y[n] ~ normal(mu, sigma) T[L, U]; }
