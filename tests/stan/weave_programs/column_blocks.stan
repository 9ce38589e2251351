// data: {"N": 12, "K": 4}
data { int N; int K; matrix[N, K] X; vector[N] y; vector[N] z; }
parameters { vector[K] b; real a; real<lower=0> s; }
model { y ~ normal(append_col(rep_vector(1, N), X[:, 2:K]) * b + a * z + col(X, 1) .* z, s); }
