// data: {"N": 12, "K": 2}
data { int N; int K; matrix[N, K] X; vector[N] y; vector<lower=0>[N] s; }
parameters { vector[K] beta; real alpha; }
model { y ~ normal_id_glm(X, alpha, beta, s); }
