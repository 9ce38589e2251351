// refuse: 4 sums over all observations
data { int N; vector[N] y; }
parameters { real<lower=0, upper=1> p; ordered[2] mu; }
model { target += log_mix(p, normal_lpdf(y | mu[1], 1), normal_lpdf(y | mu[2], 1)); }
