// data: {"N": 12, "K": 3}
data { int N; int K; matrix[K, N] Xt; row_vector[N] y; }
parameters { row_vector[K] b; real<lower=0> s; }
model { y ~ normal(b * Xt, s); }
