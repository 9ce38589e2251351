// data: {"N": 14, "K": 2, "C": 4}
data { int N; int K; int C; matrix[N, K] X; array[N] int<lower=1, upper=C> y; }
parameters { vector[K] beta; ordered[C - 1] cuts; }
model { y ~ ordered_logistic_glm(X, beta, cuts); beta ~ normal(0, 1); cuts ~ normal(0, 3); }
