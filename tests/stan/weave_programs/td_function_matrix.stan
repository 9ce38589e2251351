// data: {"N": 8, "K": 2}
functions { matrix std(matrix X) { matrix[rows(X), cols(X)] Z; for (k in 1:cols(X)) Z[, k] = (X[, k] - mean(X[, k])) / sd(X[, k]); return Z; } }
data { int N; int K; matrix[N, K] X; vector[N] y; }
transformed data { matrix[N, K] Z = std(X); }
parameters { vector[K] b; real<lower=0> s; }
model { y ~ normal(Z * b, s); }
