// data: {"N": 9}
data { int N; vector[N] y; }
transformed data { int first = 0; for (n in 1:N) { if (y[n] > 0) { first = n; break; } } }
parameters { real a; }
model { y ~ normal(a, 1 + first); }
