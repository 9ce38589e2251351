// data: {"N": 8, "D": 2}
// One vector in each column: the columns are the observations, with or without being told.
data { int N; int D; matrix[D, N] y; }
parameters { vector[D] mu; cholesky_factor_corr[D] L; }
model {
  mu ~ normal(0, 1);
  L ~ lkj_corr_cholesky(2);
  for (n in 1:N) y[, n] ~ multi_normal_cholesky(mu, L);
}
