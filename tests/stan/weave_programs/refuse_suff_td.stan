// refuse: \d+ .
data { int N; vector[N] y; }
transformed data { real ybar = mean(y); int cnt = 0; for (i in 1:N) if (y[i] > 0) cnt += 1; }
parameters { real mu; real<lower=0> s; real<lower=0, upper=1> p; }
model { ybar ~ normal(mu, s); cnt ~ binomial(N, p); }
