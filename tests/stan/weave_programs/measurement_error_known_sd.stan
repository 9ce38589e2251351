// data: {"N": 14}
data { int N; vector[N] y; vector<lower=0>[N] se; vector[N] x; }
parameters { real a; real b; real<lower=0> tau; }
model { y ~ normal(a + b * x, sqrt(square(se) + square(tau))); tau ~ normal(0, 1); }
