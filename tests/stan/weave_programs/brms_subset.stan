// data: {"N": 11, "N_y1": 9, "N_y2": 6, "K_y1": 2, "K_y2": 3, "Kc_y1": 1, "Kc_y2": 2, "prior_only": 0}
// obs: N_y1, N_y2
// brms, two outcomes on rows of their own: bf(y1 | subset(a) ~ x) + bf(y2 | subset(b) ~ x + z).
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
  int prior_only;
}
transformed data {
  matrix[N_y1, Kc_y1] Xc_y1;
  vector[Kc_y1] means_X_y1;
  matrix[N_y2, Kc_y2] Xc_y2;
  vector[Kc_y2] means_X_y2;
  for (i in 2:K_y1) {
    means_X_y1[i - 1] = mean(X_y1[, i]);
    Xc_y1[, i - 1] = X_y1[, i] - means_X_y1[i - 1];
  }
  for (i in 2:K_y2) {
    means_X_y2[i - 1] = mean(X_y2[, i]);
    Xc_y2[, i - 1] = X_y2[, i] - means_X_y2[i - 1];
  }
}
parameters {
  vector[Kc_y1] b_y1;
  real Intercept_y1;
  real<lower=0> sigma_y1;
  vector[Kc_y2] b_y2;
  real Intercept_y2;
  real<lower=0> sigma_y2;
}
transformed parameters {
  real lprior = 0;
  lprior += student_t_lpdf(Intercept_y1 | 3, 0.1, 2.5);
  lprior += student_t_lpdf(sigma_y1 | 3, 0, 2.5)
    - 1 * student_t_lccdf(0 | 3, 0, 2.5);
  lprior += student_t_lpdf(Intercept_y2 | 3, -0.1, 2.5);
  lprior += student_t_lpdf(sigma_y2 | 3, 0, 2.5)
    - 1 * student_t_lccdf(0 | 3, 0, 2.5);
}
model {

  if (!prior_only) {
    target += normal_id_glm_lpdf(Y_y1 | Xc_y1, Intercept_y1, b_y1, sigma_y1);
    target += normal_id_glm_lpdf(Y_y2 | Xc_y2, Intercept_y2, b_y2, sigma_y2);
  }

  target += lprior;
}
generated quantities {
  real b_y1_Intercept = Intercept_y1 - dot_product(means_X_y1, b_y1);
  real b_y2_Intercept = Intercept_y2 - dot_product(means_X_y2, b_y2);
}
