// data: {"N": 12}
data { int N; vector[N] x; array[N] real y; }
parameters { real a; real b; real<lower=0> s; }
model { y ~ normal(a + b * (x - mean(x)), s); }
