// refuse: 4 `total` adds up observations, and no term of the log density reads it; compute it in gen
data { int N; vector[N] x; vector[N] y; }
parameters { real a; real b; real<lower=0> s; }
transformed parameters { real total = 0; for (n in 1:N) total += a + b * x[n]; }
model { y ~ normal(a + b * x, s); }
