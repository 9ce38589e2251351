functions { void lik_lp(vector y, real mu) { y ~ normal(mu, 1); } }
data { int N; vector[N] y; }
parameters { real mu; }
model { lik_lp(y, mu); mu ~ normal(0, 1); }
