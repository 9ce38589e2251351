// refuse: \d+ .
data { int N; vector[N] y; }
parameters { real mu; real<lower=0> s; }
model { mean(y) ~ normal(mu, s / sqrt(N)); }
