// data: {"N": 10, "K": 2}
data { int N; int K; matrix[N, K] X; array[N] int<lower=0> y; vector[N] off; }
transformed data { matrix[N, K + 1] Z = append_col(rep_vector(1, rows(X)), X); array[N] int z; for (i in 1:rows(X)) z[i] = y[i] > 1 ? 1 : 0; }
parameters { vector[K + 1] b; }
model { y ~ poisson_log(Z * b + off); z ~ bernoulli_logit(Z * b); }
