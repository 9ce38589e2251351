// data: {"N": 14, "K": 2, "C": 3}
data { int N; int K; int C; matrix[N, K] X; array[N] int<lower=1, upper=C> y; }
parameters { matrix[K, C] beta; vector[C] alpha; }
model { to_vector(beta) ~ normal(0, 1); alpha ~ normal(0, 1); y ~ categorical_logit_glm(X, alpha, beta); }
