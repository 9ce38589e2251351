// data: {"N": 12, "K": 3}
data { int N; int K; matrix[N, K] x; vector[N] y; }
transformed data {
  matrix[K, K] R_ast = cholesky_decompose(crossprod(x) / (N - 1))';
  matrix[N, K] Q_ast = x * inverse(R_ast);
  matrix[K, K] R_ast_inverse = inverse(R_ast);
}
parameters { real alpha; vector[K] theta; real<lower=0> sigma; }
model { y ~ normal(Q_ast * theta + alpha, sigma); }
generated quantities { vector[K] beta = R_ast_inverse * theta; }
