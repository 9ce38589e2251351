// Part worths of each respondent, correlated, non-centred.
data {
  int<lower=2> A;
  int<lower=1> L;
  int<lower=1> R;
  int<lower=1> N;
  array[N] int<lower=1, upper=A> choice;
  array[N] int<lower=1, upper=R> resp;
  array[N] matrix[A, L] X;
}
parameters {
  vector[L] mu;
  matrix[L, R] alpha;
  cholesky_factor_corr[L] L_Omega;
  vector<lower=0>[L] tau;
}
transformed parameters {
  matrix[L, R] B = rep_matrix(mu, R) + diag_pre_multiply(tau, L_Omega) * alpha;
}
model {
  mu ~ normal(0, 0.7);
  to_vector(alpha) ~ std_normal();
  L_Omega ~ lkj_corr_cholesky(3);
  tau ~ normal(0, 0.5);
  for (n in 1:N) {
    target += categorical_logit_lpmf(choice[n] | X[n] * B[, resp[n]]);
  }
}
