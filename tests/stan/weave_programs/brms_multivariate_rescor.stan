// data: {"N": 9, "N_y1": 9, "N_y2": 9, "nresp": 2, "nrescor": 1, "K_y1": 2, "Kc_y1": 1, "K_y2": 3, "Kc_y2": 2, "N_1": 3, "M_1": 2, "NC_1": 1, "J_1_y1": "np.resize([1,2,3],N)", "J_1_y2": "np.resize([3,2,1],N)", "prior_only": 0}
// brms, two outcomes with residual correlation: N, N_y1 and N_y2 are one count.
data {
  int<lower=1> N;
  int<lower=1> N_y1;
  vector[N_y1] Y_y1;
  int<lower=1> K_y1;
  matrix[N_y1, K_y1] X_y1;
  int<lower=1> Kc_y1;
  int<lower=1> N_y2;
  vector[N_y2] Y_y2;
  int<lower=1> K_y2;
  matrix[N_y2, K_y2] X_y2;
  int<lower=1> Kc_y2;
  int<lower=1> nresp;
  int nrescor;
  int<lower=1> N_1;
  int<lower=1> M_1;
  array[N_y1] int<lower=1> J_1_y1;
  array[N_y2] int<lower=1> J_1_y2;
  vector[N_y1] Z_1_y1_1;
  vector[N_y2] Z_1_y2_2;
  int<lower=1> NC_1;
  int prior_only;
}
transformed data {
  matrix[N_y1, Kc_y1] Xc_y1;
  vector[Kc_y1] means_X_y1;
  matrix[N_y2, Kc_y2] Xc_y2;
  vector[Kc_y2] means_X_y2;
  array[N] vector[nresp] Y;
  for (i in 2:K_y1) {
    means_X_y1[i - 1] = mean(X_y1[, i]);
    Xc_y1[, i - 1] = X_y1[, i] - means_X_y1[i - 1];
  }
  for (i in 2:K_y2) {
    means_X_y2[i - 1] = mean(X_y2[, i]);
    Xc_y2[, i - 1] = X_y2[, i] - means_X_y2[i - 1];
  }
  for (n in 1:N) {
    Y[n] = transpose([Y_y1[n], Y_y2[n]]);
  }
}
parameters {
  vector[Kc_y1] b_y1;
  real Intercept_y1;
  real<lower=0> sigma_y1;
  vector[Kc_y2] b_y2;
  real Intercept_y2;
  real<lower=0> sigma_y2;
  cholesky_factor_corr[nresp] Lrescor;
  vector<lower=0>[M_1] sd_1;
  matrix[M_1, N_1] z_1;
  cholesky_factor_corr[M_1] L_1;
}
transformed parameters {
  matrix[N_1, M_1] r_1;
  vector[N_1] r_1_y1_1;
  vector[N_1] r_1_y2_2;
  real lprior = 0;
  r_1 = transpose(diag_pre_multiply(sd_1, L_1) * z_1);
  r_1_y1_1 = r_1[, 1];
  r_1_y2_2 = r_1[, 2];
  lprior += student_t_lpdf(Intercept_y1 | 3, 0, 2.5);
  lprior += student_t_lpdf(sigma_y1 | 3, 0, 2.5) - 1 * student_t_lccdf(0 | 3, 0, 2.5);
  lprior += lkj_corr_cholesky_lpdf(Lrescor | 1);
}
model {
  if (!prior_only) {
    vector[N_y1] mu_y1 = rep_vector(0.0, N_y1);
    vector[N_y2] mu_y2 = rep_vector(0.0, N_y2);
    array[N] vector[nresp] Mu;
    vector[nresp] sigma = transpose([sigma_y1, sigma_y2]);
    matrix[nresp, nresp] LSigma = diag_pre_multiply(sigma, Lrescor);
    mu_y1 += Intercept_y1 + Xc_y1 * b_y1;
    mu_y2 += Intercept_y2 + Xc_y2 * b_y2;
    for (n in 1:N_y1) {
      mu_y1[n] += r_1_y1_1[J_1_y1[n]] * Z_1_y1_1[n];
    }
    for (n in 1:N_y2) {
      mu_y2[n] += r_1_y2_2[J_1_y2[n]] * Z_1_y2_2[n];
    }
    for (n in 1:N) {
      Mu[n] = transpose([mu_y1[n], mu_y2[n]]);
    }
    target += multi_normal_cholesky_lpdf(Y | Mu, LSigma);
  }
  target += lprior;
  target += std_normal_lpdf(to_vector(z_1));
}
