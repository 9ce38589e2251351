// data: {"N": 9, "D": 3}
// Multivariate densities whose scale matrix all rows share, in each of Stan's forms.
data { int N; int D; array[N] vector[D] y; array[N] row_vector[D] z; matrix[N, D] X; }
parameters { vector[D] m; cholesky_factor_corr[D] L; vector<lower=0>[D] tau; real<lower=0> nu; }
transformed parameters {
  array[N] vector[D] mu;
  matrix[D, D] S = multiply_lower_tri_self_transpose(diag_pre_multiply(tau, L));
  for (n in 1:N) mu[n] = m .* X[n]';
}
model {
  y ~ multi_normal(mu, S);
  z ~ multi_normal(m, add_diag(S, 1));
  target += multi_normal_cholesky_lpdf(y | m, diag_pre_multiply(tau, L));
  target += 0.5 * multi_normal_prec_lpdf(z | mu, S);
  y ~ multi_student_t(2 + nu, mu, S);
  y ~ multi_student_t_cholesky(nu, m, L);
  m ~ normal(0, 1);
  tau ~ normal(0, 1);
  nu ~ gamma(2, 0.1);
}
