// share ~ x1 + x2 + (1 | g), family = Beta()
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
  real<lower=0> phi;
  vector<lower=0>[M_1] sd_1;
  array[M_1] vector[N_1] z_1;
}
transformed parameters {
  vector[N_1] r_1_1;
  real lprior = 0;
  r_1_1 = (sd_1[1] * (z_1[1]));
  lprior += normal_lpdf(b | 0, 0.3);
  lprior += normal_lpdf(Intercept | 0, 0.4);
  lprior += gamma_lpdf(phi | 12, 0.4);
  lprior += normal_lpdf(sd_1 | 0, 0.4)
    - 1 * normal_lccdf(0 | 0, 0.4);
}
model {
  if (!prior_only) {
    vector[N] mu = rep_vector(0.0, N);
    mu += Intercept + Xc * b;
    for (n in 1:N) {
      mu[n] += r_1_1[J_1[n]] * Z_1_1[n];
    }
    mu = inv_logit(mu);
    target += beta_lpdf(Y | mu * phi, (1 - mu) * phi);
  }
  target += lprior;
  target += std_normal_lpdf(z_1[1]);
}
