// data: {"N": 8, "K": 3, "D": 2}
data { int N; int K; int D; matrix[N, D] x; matrix[N, K] Y; }
parameters { matrix[D, K] B; real<lower=0> s; }
model { to_vector(B) ~ normal(0, 1); to_vector(Y) ~ normal(to_vector(x * B), s); }
