// refuse: \d+ .
data { int N; vector[N] y; array[N] int<lower=0, upper=1> z; vector[N] x; }
transformed data { int cnt = sum(z); }
parameters { real mu; real<lower=0> s; real<lower=0, upper=1> p; }
model { y ~ normal(mu + x, s); cnt ~ binomial(N, p); }
