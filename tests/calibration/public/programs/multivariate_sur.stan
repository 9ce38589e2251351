// Demand for three goods: one regression each, errors correlated.
data {
  int<lower=1> K;
  int<lower=1> J;
  int<lower=0> N;
  array[N] vector[J] x;
  array[N] vector[K] y;
}
parameters {
  matrix[K, J] beta;
  cholesky_factor_corr[K] L_Omega;
  vector<lower=0>[K] L_sigma;
}
model {
  array[N] vector[K] mu;
  matrix[K, K] L_Sigma;
  for (n in 1:N)
    mu[n] = beta * x[n];
  L_Sigma = diag_pre_multiply(L_sigma, L_Omega);
  to_vector(beta) ~ normal(0, 1);
  L_Omega ~ lkj_corr_cholesky(3);
  L_sigma ~ gamma(4, 4);
  y ~ multi_normal_cholesky(mu, L_Sigma);
}
