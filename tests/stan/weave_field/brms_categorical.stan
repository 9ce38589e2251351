data {
  int<lower=1> N;
  int<lower=2> ncat;
  array[N] int Y;
  int K_mu2;
  matrix[N, K_mu2] X_mu2;
  int K_mu3;
  matrix[N, K_mu3] X_mu3;
  int prior_only;
}
parameters {
  vector[K_mu2] b_mu2;
  vector[K_mu3] b_mu3;
}
model {
  if (!prior_only) {
    vector[N] mu2 = rep_vector(0.0, N);
    vector[N] mu3 = rep_vector(0.0, N);
    array[N] vector[ncat] mu;
    mu2 += X_mu2 * b_mu2;
    mu3 += X_mu3 * b_mu3;
    for (n in 1 : N) {
      mu[n] = transpose([0, mu2[n], mu3[n]]);
    }
    for (n in 1 : N) {
      target += categorical_logit_lpmf(Y[n] | mu[n]);
    }
  }
  target += normal_lpdf(b_mu2 | 0, 1) + normal_lpdf(b_mu3 | 0, 1);
}

