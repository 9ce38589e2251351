// data: {"N": 12, "y": "rng.uniform(0.5, 3, N)"}
data { int N; vector<lower=0>[N] y; }
parameters { real<lower=max(y)> theta; real<lower=0> k; }
model { target += -N * k * log(theta) + (k - 1) * sum(log(y)) + N * log(k); theta ~ pareto(0.4, 1.5); }
