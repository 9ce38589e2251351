// data: {"N": 12, "K": 4, "D": 2}
data { int K; int N; int D; array[N] int<lower=1, upper=K> y; matrix[N, D] x; }
parameters { vector[D] beta; ordered[K - 1] c; }
model { y ~ ordered_logistic(x * beta, c); c ~ normal(0, 3); }
