// data: {"N": 11, "N_y": 11, "N_x": 11, "Nmi_x": 3, "Jmi_x": [2, 9, 5], "K_y": 1, "K_x": 1, "Ksp_y": 1, "prior_only": 0}
data {
  int<lower=1> N;
  int<lower=1> N_y;
  vector[N_y] Y_y;
  int<lower=1> K_y;
  matrix[N_y, K_y] X_y;
  int<lower=1> Ksp_y;
  int<lower=1> N_x;
  vector[N_x] Y_x;
  int<lower=0> Nmi_x;
  array[Nmi_x] int<lower=1> Jmi_x;
  int<lower=1> K_x;
  matrix[N_x, K_x] X_x;
  int prior_only;
}
parameters {
  vector[K_y] b_y;
  real Intercept_y;
  vector[Ksp_y] bsp_y;
  real<lower=0> sigma_y;
  vector[Nmi_x] Ymi_x;
  vector[K_x] b_x;
  real Intercept_x;
  real<lower=0> sigma_x;
}
model {
  if (!prior_only) {
    vector[N_x] Yl_x = Y_x;
    vector[N_y] mu_y = rep_vector(0.0, N_y);
    vector[N_x] mu_x = rep_vector(0.0, N_x);
    Yl_x[Jmi_x] = Ymi_x;
    mu_y += Intercept_y;
    mu_x += Intercept_x;
    for (n in 1:N_y) {
      mu_y[n] += (bsp_y[1]) * Yl_x[n];
    }
    target += normal_id_glm_lpdf(Y_y | X_y, mu_y, b_y, sigma_y);
    target += normal_id_glm_lpdf(Yl_x | X_x, mu_x, b_x, sigma_x);
  }
  Intercept_y ~ student_t(3, 0, 2.5);
  sigma_y ~ student_t(3, 0, 2.5);
  Intercept_x ~ student_t(3, 0, 2.5);
  sigma_x ~ student_t(3, 0, 2.5);
}
