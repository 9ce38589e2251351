// refuse: \d+ .
data { int N; vector[N] y; vector[N] x; }
parameters { real a; real b; }
model { vector[N] m = a + b * x; y ~ normal(m - max(m), 1); }
