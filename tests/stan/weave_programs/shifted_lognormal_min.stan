// data: {"N": 12, "y": "rng.lognormal(size=N) + 0.3"}
data { int N; vector<lower=0>[N] y; }
transformed data { real min_y = min(y); }
parameters { real mu; real<lower=0> s; real<lower=0, upper=min_y> ndt; }
model { target += lognormal_lpdf(y - ndt | mu, s); ndt ~ uniform(0, min_y); }
