// data: {"N": 9, "d": 1}
data { int N; int d; vector[N] y; }
parameters { real mu; }
model { if (d == 1) { y ~ normal(mu, 1); mu ~ normal(0, 2); } else { mu ~ normal(1, 2); } }
