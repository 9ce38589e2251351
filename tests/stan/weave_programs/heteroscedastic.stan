// data: {"N": 12, "K": 2}
data { int N; int K; matrix[N, K] X; vector[N] y; }
parameters { vector[K] b; vector[K] g; }
model { y ~ normal(X * b, exp(X * g)); b ~ normal(0, 1); g ~ normal(0, 1); }
