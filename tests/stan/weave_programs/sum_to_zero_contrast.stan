// data: {"N": 12, "K": 3}
data { int N; int K; array[N] int<lower=1, upper=K> g; vector[N] y; }
parameters { vector[K - 1] b_raw; real a; real<lower=0> s; }
transformed parameters { vector[K] b = append_row(b_raw, -sum(b_raw)); }
model { y ~ normal(a + b[g], s); b_raw ~ normal(0, 1); }
