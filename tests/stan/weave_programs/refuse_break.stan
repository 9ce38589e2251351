// refuse: \d+ .
data { int N; vector[N] y; }
parameters { real a; }
model { for (n in 1:N) { if (y[n] > 1) break; y[n] ~ normal(a, 1); } }
