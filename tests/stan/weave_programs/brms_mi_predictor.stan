// data: {"N": 11, "N_y": 11, "N_x": 11, "Nmi_x": 3, "Jmi_x": [2, 9, 5], "prior_only": 0}
data {
  int<lower=1> N;
  int<lower=1> N_y;
  vector[N_y] Y_y;
  int<lower=1> N_x;
  vector[N_x] Y_x;
  int<lower=0> Nmi_x;
  array[Nmi_x] int<lower=1> Jmi_x;
  int prior_only;
}
parameters {
  real Intercept_y;
  vector[1] bsp_y;
  real<lower=0> sigma_y;
  vector[Nmi_x] Ymi_x;
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
    target += normal_lpdf(Y_y | mu_y, sigma_y);
    target += normal_lpdf(Yl_x | mu_x, sigma_x);
  }
}
