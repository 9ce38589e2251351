// Spending on three goods: an equation for each, with errors that go together.
data {
  int<lower=1> N;
  int<lower=1> goods;
  int<lower=1> D;
  array[N] vector[D] x;
  array[N] vector[goods] spent;
}
parameters {
  matrix[goods, D] B;
  vector<lower=0>[goods] sd_error;
  cholesky_factor_corr[goods] L_error;
}
transformed parameters {
  matrix[goods, goods] L = diag_pre_multiply(sd_error, L_error);
}
model {
  to_vector(B) ~ std_normal();
  sd_error ~ gamma(4, 4);
  L_error ~ lkj_corr_cholesky(3);
  for (n in 1:N) {
    spent[n] ~ multi_normal_cholesky(B * x[n], L);
  }
}
