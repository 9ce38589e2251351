// mvbind(tarsus, back) ~ x + (1 | p | dam), residuals correlated.
data {
  int<lower=1> N;
  int<lower=1> N_tarsus;
  vector[N_tarsus] Y_tarsus;
  int<lower=1> K_tarsus;
  matrix[N_tarsus, K_tarsus] X_tarsus;
  int<lower=1> Kc_tarsus;
  int<lower=1> N_back;
  vector[N_back] Y_back;
  int<lower=1> nresp;
  int nrescor;
  int<lower=1> N_1;
  int<lower=1> M_1;
  array[N_tarsus] int<lower=1> J_1_tarsus;
  array[N_back] int<lower=1> J_1_back;
  int prior_only;
}
transformed data {
  matrix[N_tarsus, Kc_tarsus] Xc_tarsus;
  vector[Kc_tarsus] means_X_tarsus;
  array[N] vector[nresp] Y;
  for (i in 2:K_tarsus) {
    means_X_tarsus[i - 1] = mean(X_tarsus[, i]);
    Xc_tarsus[, i - 1] = X_tarsus[, i] - means_X_tarsus[i - 1];
  }
  for (n in 1:N) {
    Y[n] = transpose([Y_tarsus[n], Y_back[n]]);
  }
}
parameters {
  vector[Kc_tarsus] b_tarsus;
  real Intercept_tarsus;
  real<lower=0> sigma_tarsus;
  real Intercept_back;
  real<lower=0> sigma_back;
  cholesky_factor_corr[nresp] Lrescor;
  vector<lower=0>[M_1] sd_1;
  matrix[M_1, N_1] z_1;
  cholesky_factor_corr[M_1] L_1;
}
transformed parameters {
  matrix[N_1, M_1] r_1;
  vector[N_1] r_1_tarsus_1;
  vector[N_1] r_1_back_2;
  real lprior = 0;
  r_1 = transpose(diag_pre_multiply(sd_1, L_1) * z_1);
  r_1_tarsus_1 = r_1[, 1];
  r_1_back_2 = r_1[, 2];
  lprior += normal_lpdf(b_tarsus | 0, 0.7);
  lprior += normal_lpdf(Intercept_tarsus | 0, 1);
  lprior += normal_lpdf(sigma_tarsus | 0, 1) - 1 * normal_lccdf(0 | 0, 1);
  lprior += normal_lpdf(Intercept_back | 0, 1);
  lprior += normal_lpdf(sigma_back | 0, 1) - 1 * normal_lccdf(0 | 0, 1);
  lprior += normal_lpdf(sd_1 | 0, 0.7) - 2 * normal_lccdf(0 | 0, 0.7);
  lprior += lkj_corr_cholesky_lpdf(L_1 | 1);
  lprior += lkj_corr_cholesky_lpdf(Lrescor | 1);
}
model {
  if (!prior_only) {
    vector[N_tarsus] mu_tarsus = rep_vector(0.0, N_tarsus);
    vector[N_back] mu_back = rep_vector(0.0, N_back);
    array[N] vector[nresp] Mu;
    vector[nresp] sigma = transpose([sigma_tarsus, sigma_back]);
    matrix[nresp, nresp] LSigma = diag_pre_multiply(sigma, Lrescor);
    mu_tarsus += Intercept_tarsus + Xc_tarsus * b_tarsus;
    mu_back += Intercept_back;
    for (n in 1:N_tarsus) {
      mu_tarsus[n] += r_1_tarsus_1[J_1_tarsus[n]];
    }
    for (n in 1:N_back) {
      mu_back[n] += r_1_back_2[J_1_back[n]];
    }
    for (n in 1:N) {
      Mu[n] = transpose([mu_tarsus[n], mu_back[n]]);
    }
    target += multi_normal_cholesky_lpdf(Y | Mu, LSigma);
  }
  target += lprior;
  target += std_normal_lpdf(to_vector(z_1));
}
