// Ratings of lectures by students of lecturers in departments, all crossed, brms' form.
data {
  int<lower=1> N;
  vector[N] Y;
  int<lower=1> K;
  matrix[N, K] X;
  int<lower=1> Kc;
  int<lower=1> N_1;
  int<lower=1> M_1;
  array[N] int<lower=1> J_1;
  vector[N] Z_1_1;
  int<lower=1> N_2;
  int<lower=1> M_2;
  array[N] int<lower=1> J_2;
  vector[N] Z_2_1;
  int<lower=1> N_3;
  int<lower=1> M_3;
  array[N] int<lower=1> J_3;
  vector[N] Z_3_1;
  int prior_only;
}
transformed data {
  matrix[N, Kc] Xc;
  vector[Kc] means_X;
  for (i in 2:K) {
    means_X[i - 1] = mean(X[, i]);
    Xc[, i - 1] = X[, i] - means_X[i - 1];
  }
}
parameters {
  vector[Kc] b;
  real Intercept;
  real<lower=0> sigma;
  vector<lower=0>[M_1] sd_1;
  array[M_1] vector[N_1] z_1;
  vector<lower=0>[M_2] sd_2;
  array[M_2] vector[N_2] z_2;
  vector<lower=0>[M_3] sd_3;
  array[M_3] vector[N_3] z_3;
}
transformed parameters {
  vector[N_1] r_1_1;
  vector[N_2] r_2_1;
  vector[N_3] r_3_1;
  real lprior = 0;
  r_1_1 = (sd_1[1] * (z_1[1]));
  r_2_1 = (sd_2[1] * (z_2[1]));
  r_3_1 = (sd_3[1] * (z_3[1]));
  lprior += normal_lpdf(b | 0, 0.5);
  lprior += student_t_lpdf(Intercept | 3, 3, 0.5);
  lprior += exponential_lpdf(sigma | 1);
  lprior += exponential_lpdf(sd_1 | 2);
  lprior += exponential_lpdf(sd_2 | 2);
  lprior += exponential_lpdf(sd_3 | 2);
}
model {
  if (!prior_only) {
    vector[N] mu = rep_vector(0.0, N);
    mu += Intercept;
    for (n in 1:N) {
      mu[n] += r_1_1[J_1[n]] * Z_1_1[n] + r_2_1[J_2[n]] * Z_2_1[n] + r_3_1[J_3[n]] * Z_3_1[n];
    }
    target += normal_id_glm_lpdf(Y | Xc, mu, b, sigma);
  }
  target += lprior;
  target += std_normal_lpdf(z_1[1]);
  target += std_normal_lpdf(z_2[1]);
  target += std_normal_lpdf(z_3[1]);
}
