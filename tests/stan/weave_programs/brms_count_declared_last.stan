// data: {"N": 9, "N_y1": 9, "N_y2": 9, "K_y1": 2, "K_y2": 1, "N_1": 3, "J_1_y1": "np.resize([1,2,3],N_y1)", "prior_only": 0}
// Declared last, the count that is meant is that of data before it: two outcomes of two families without residual correlation.
data {
  int<lower=1> N_y1;
  vector[N_y1] Y_y1;
  int<lower=1> K_y1;
  matrix[N_y1, K_y1] X_y1;
  int<lower=1> N_y2;
  array[N_y2] int Y_y2;
  int<lower=1> K_y2;
  matrix[N_y2, K_y2] X_y2;
  int<lower=1> N_1;
  array[N_y1] int<lower=1> J_1_y1;
  int prior_only;
  int<lower=1> N;
}
parameters {
  vector[K_y1] b_y1;
  vector[K_y2] b_y2;
  real<lower=0> sigma_y1;
  real Intercept_y2;
  vector[N_1] z_1;
}
model {
  if (!prior_only) {
    vector[N_y1] mu_y1 = rep_vector(0.0, N_y1);
    vector[N_y2] mu_y2 = rep_vector(0.0, N_y2);
    for (n in 1:N_y1) {
      mu_y1[n] += z_1[J_1_y1[n]];
    }
    mu_y2 += Intercept_y2;
    target += normal_id_glm_lpdf(Y_y1 | X_y1, mu_y1, b_y1, sigma_y1);
    target += poisson_log_glm_lpmf(Y_y2 | X_y2, mu_y2, b_y2);
  }
  target += student_t_lpdf(sigma_y1 | 3, 0, 2.5) - student_t_lccdf(0 | 3, 0, 2.5);
  target += std_normal_lpdf(z_1);
  target += normal_lpdf(b_y2 | 0, 1);
}
