// data: {"N": 12, "K": 3}
data { int K; int N; array[N] vector[K] y; }
parameters { vector[K] mu; cov_matrix[K] Sigma; }
model { y ~ multi_normal(mu, Sigma); mu ~ normal(0, 3); }
