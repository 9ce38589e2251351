// refuse: \d+ .
functions { vector ctr(vector x) { return x - mean(x); } }
data { int N; vector[N] x; vector[N] y; }
parameters { real b; real<lower=0> s; }
transformed parameters { vector[N] mu = ctr(x) * b; }
model { y ~ normal(mu, s); }
