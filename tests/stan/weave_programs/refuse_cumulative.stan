// refuse: 4 order
data { int N; vector[N] y; vector[N] x; }
parameters { real a; real b; }
model { y ~ normal(a + cumulative_sum(b * x), 1); }
