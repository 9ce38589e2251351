// data: {"N": 14, "D": 2, "K": 3}
data { int K; int N; int D; array[N] int<lower=1, upper=K> y; matrix[N, D] x; }
parameters { matrix[D, K] beta; }
model {
  matrix[N, K] x_beta = x * beta;
  to_vector(beta) ~ normal(0, 5);
  for (n in 1:N) y[n] ~ categorical_logit(x_beta[n]');
}
