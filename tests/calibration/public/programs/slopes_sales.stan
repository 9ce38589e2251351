// Sales in stores: intercept, price and display effects of a store follow what the store is like.
data {
  int<lower=1> N;
  int<lower=1> S;
  int<lower=1> L;
  array[N] int<lower=0> sales;
  array[N] int<lower=1, upper=S> s;
  matrix[N, 3] x;
  matrix[S, L] u;
}
parameters {
  matrix[3, S] z;
  cholesky_factor_corr[3] L_Omega;
  vector<lower=0, upper=pi() / 2>[3] tau_unif;
  matrix[L, 3] gamma;
}
transformed parameters {
  vector<lower=0>[3] tau = 0.2 * tan(tau_unif);
  matrix[S, 3] beta = u * gamma + (diag_pre_multiply(tau, L_Omega) * z)';
}
model {
  to_vector(z) ~ std_normal();
  L_Omega ~ lkj_corr_cholesky(4);
  tau_unif ~ normal(0.6, 0.2);
  to_vector(gamma) ~ normal(0, 0.3);
  sales ~ poisson_log(rows_dot_product(beta[s], x));
}
