// refuse: \d+ .
data { int N; vector[N] y; }
parameters { real mu; real<lower=0> s; }
model { real ybar = mean(y); ybar ~ normal(mu, s / sqrt(N)); }
