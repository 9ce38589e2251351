// refuse: \d+ moving average
data {
  int<lower=1> N;
  vector[N] Y;
  int<lower=1> K;
  matrix[N, K] X;
  int<lower=1> Kc;
  int<lower=0> Kar;
  int<lower=0> Kma;
  array[N] int<lower=0> J_lag;
  int<lower=1> N_1;
  array[N] int<lower=1> J_1;
  int prior_only;
}
transformed data {
  matrix[N, Kc] Xc;
  vector[Kc] means_X;
  int max_lag = max(Kar, Kma);
  for (i in 2:K) {
    means_X[i - 1] = mean(X[, i]);
    Xc[, i - 1] = X[, i] - means_X[i - 1];
  }
}
parameters {
  vector[Kc] b;
  real Intercept;
  vector[Kar] ar;
  vector[Kma] ma;
  real<lower=0> sigma;
  vector[N_1] z_1;
}
model {
  if (!prior_only) {
    matrix[N, max_lag] Err = rep_matrix(0, N, max_lag);
    vector[N] err;
    vector[N] mu = rep_vector(0.0, N);
    mu += Intercept + Xc * b;
    for (n in 1:N) {
      mu[n] += z_1[J_1[n]];
    }
    for (n in 1:N) {
      mu[n] += Err[n, 1:Kma] * ma;
      err[n] = Y[n] - mu[n];
      for (i in 1:J_lag[n]) {
        Err[n + 1, i] = err[n + 1 - i];
      }
      mu[n] += Err[n, 1:Kar] * ar;
    }
    target += normal_lpdf(Y | mu, sigma);
  }
  target += normal_lpdf(Intercept | 0, 2);
  target += std_normal_lpdf(z_1);
  target += student_t_lpdf(sigma | 3, 0, 2.5);
}
