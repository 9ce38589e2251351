// data: {"N": 12}
data { int N; vector[N] y; vector<lower=0>[N] w; }
parameters { real mu; real<lower=0> s; }
model { for (n in 1:N) target += w[n] * normal_lpdf(y[n] | mu, s); mu ~ normal(0, 1); }
