// refuse: \d+ .
data { int N; array[N] int y; vector[N] x; }
parameters { real a; real b; }
model { vector[N] eta = a + b * x; y ~ poisson_log(eta); mean(eta) ~ normal(0, 0.01); }
