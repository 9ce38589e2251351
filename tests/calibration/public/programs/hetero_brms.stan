// bf(y ~ x1 + (1 | g), sigma ~ x2)
data {
  int<lower=1> N;
  vector[N] Y;
  int<lower=1> K;
  matrix[N, K] X;
  int<lower=1> Kc;
  int<lower=1> K_sigma;
  matrix[N, K_sigma] X_sigma;
  int<lower=1> Kc_sigma;
  int<lower=1> N_1;
  int<lower=1> M_1;
  array[N] int<lower=1> J_1;
  vector[N] Z_1_1;
  int prior_only;
}
transformed data {
  matrix[N, Kc] Xc;
  vector[Kc] means_X;
  matrix[N, Kc_sigma] Xc_sigma;
  vector[Kc_sigma] means_X_sigma;
  for (i in 2:K) {
    means_X[i - 1] = mean(X[, i]);
    Xc[, i - 1] = X[, i] - means_X[i - 1];
  }
  for (i in 2:K_sigma) {
    means_X_sigma[i - 1] = mean(X_sigma[, i]);
    Xc_sigma[, i - 1] = X_sigma[, i] - means_X_sigma[i - 1];
  }
}
parameters {
  vector[Kc] b;
  real Intercept;
  vector[Kc_sigma] b_sigma;
  real Intercept_sigma;
  vector<lower=0>[M_1] sd_1;
  array[M_1] vector[N_1] z_1;
}
transformed parameters {
  vector[N_1] r_1_1;
  real lprior = 0;
  r_1_1 = (sd_1[1] * (z_1[1]));
  lprior += normal_lpdf(b | 0, 1);
  lprior += student_t_lpdf(Intercept | 3, 0, 1);
  lprior += normal_lpdf(b_sigma | 0, 0.4);
  lprior += student_t_lpdf(Intercept_sigma | 3, 0, 0.4);
  lprior += normal_lpdf(sd_1 | 0, 0.7)
    - 1 * normal_lccdf(0 | 0, 0.7);
}
model {
  if (!prior_only) {
    vector[N] mu = rep_vector(0.0, N);
    vector[N] sigma = rep_vector(0.0, N);
    mu += Intercept + Xc * b;
    sigma += Intercept_sigma + Xc_sigma * b_sigma;
    for (n in 1:N) {
      mu[n] += r_1_1[J_1[n]] * Z_1_1[n];
    }
    sigma = exp(sigma);
    target += normal_lpdf(Y | mu, sigma);
  }
  target += lprior;
  target += std_normal_lpdf(z_1[1]);
}
