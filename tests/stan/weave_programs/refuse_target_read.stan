// refuse: 4 target
data { int N; vector[N] y; }
parameters { real mu; }
model { y ~ normal(mu, 1); target += 0.1 * target(); }
