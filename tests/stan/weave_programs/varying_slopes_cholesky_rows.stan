// data: {"N": 20, "J": 4, "K": 2}
data { int N; int J; int K; array[N] int<lower=1, upper=J> jj; matrix[N, K] x; vector[N] y; }
parameters { matrix[K, J] z; cholesky_factor_corr[K] L; vector<lower=0>[K] tau; vector[K] mu; real<lower=0> sigma; }
transformed parameters {
  matrix[J, K] beta = rep_matrix(mu', J) + (diag_pre_multiply(tau, L) * z)';
}
model {
  to_vector(z) ~ std_normal();
  L ~ lkj_corr_cholesky(2);
  y ~ normal(rows_dot_product(beta[jj], x), sigma);
}
