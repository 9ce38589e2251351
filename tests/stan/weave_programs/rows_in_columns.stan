// data: {"N": 7, "K": 3}
// obs: N
data { int N; int K; matrix[K, N] Y; matrix[K, N] X; }
parameters { matrix[K, K] A; real<lower=0> s; }
model { matrix[K, N] M = A * X; for (n in 1:N) Y[, n] ~ normal(M[, n], s); to_vector(Y) ~ normal(to_vector(M), s); for (k in 1:K) Y[k] ~ normal(M[k], 2); }
