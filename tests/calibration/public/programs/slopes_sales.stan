// Sales in stores: level, price and display effects of a store follow what the store is like.
data {
  int<lower=1> N;
  int<lower=1> stores;
  int<lower=1> D;
  array[N] int<lower=0> sold;
  array[N] int<lower=1, upper=stores> store;
  matrix[N, 3] x;
  matrix[stores, D] about;
}
parameters {
  matrix[D, 3] G;
  matrix[3, stores] z;
  cholesky_factor_corr[3] L;
  vector<lower=0, upper=pi() / 2>[3] angle;
}
transformed parameters {
  // a scale with a Cauchy tail, as the tangent of an angle
  vector<lower=0>[3] spread = 0.2 * tan(angle);
  matrix[stores, 3] b = about * G + transpose(diag_pre_multiply(spread, L) * z);
}
model {
  to_vector(G) ~ normal(0, 0.3);
  to_vector(z) ~ std_normal();
  L ~ lkj_corr_cholesky(4);
  angle ~ normal(0.6, 0.2);
  sold ~ poisson_log(rows_dot_product(b[store], x));
}
