// data: {"N": 12, "K": 2}
data { int N; int K; matrix[N, K] X; array[N] int<lower=0> y; }
parameters { vector[K] beta; real alpha; real<lower=0> phi; }
model {
  y ~ neg_binomial_2_log_glm(X, alpha, beta, phi);
  phi ~ gamma(2, 0.1);
}
