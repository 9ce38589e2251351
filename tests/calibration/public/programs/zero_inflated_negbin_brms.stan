// bf(y ~ x1 + (1 | g), zi ~ x2), family = zero_inflated_negbinomial()
functions {
  /* zero-inflated negative binomial log-PDF of a single response
   * log parameterization of the negative binomial part
   * logit parameterization of the zero-inflation part
   */
  real zero_inflated_neg_binomial_log_logit_lpmf(int y, real eta, real phi, real zi) {
    if (y == 0) {
      return log_sum_exp(bernoulli_logit_lpmf(1 | zi),
                         bernoulli_logit_lpmf(0 | zi) +
                         neg_binomial_2_log_lpmf(0 | eta, phi));
    } else {
      return bernoulli_logit_lpmf(0 | zi) +
             neg_binomial_2_log_lpmf(y | eta, phi);
    }
  }
}
data {
  int<lower=1> N;
  array[N] int Y;
  int<lower=1> K;
  matrix[N, K] X;
  int<lower=1> Kc;
  int<lower=1> K_zi;
  matrix[N, K_zi] X_zi;
  int<lower=1> Kc_zi;
  int<lower=1> N_1;
  int<lower=1> M_1;
  array[N] int<lower=1> J_1;
  vector[N] Z_1_1;
  int prior_only;
}
transformed data {
  matrix[N, Kc] Xc;
  vector[Kc] means_X;
  matrix[N, Kc_zi] Xc_zi;
  vector[Kc_zi] means_X_zi;
  for (i in 2:K) {
    means_X[i - 1] = mean(X[, i]);
    Xc[, i - 1] = X[, i] - means_X[i - 1];
  }
  for (i in 2:K_zi) {
    means_X_zi[i - 1] = mean(X_zi[, i]);
    Xc_zi[, i - 1] = X_zi[, i] - means_X_zi[i - 1];
  }
}
parameters {
  vector[Kc] b;
  real Intercept;
  real<lower=0> shape;
  vector[Kc_zi] b_zi;
  real Intercept_zi;
  vector<lower=0>[M_1] sd_1;
  array[M_1] vector[N_1] z_1;
}
transformed parameters {
  vector[N_1] r_1_1;
  real lprior = 0;
  r_1_1 = (sd_1[1] * (z_1[1]));
  lprior += normal_lpdf(b | 0, 0.4);
  lprior += normal_lpdf(Intercept | 1, 0.5);
  lprior += gamma_lpdf(shape | 6, 3);
  lprior += normal_lpdf(b_zi | 0, 0.5);
  lprior += logistic_lpdf(Intercept_zi | -0.5, 0.4);
  lprior += normal_lpdf(sd_1 | 0, 0.5) - 1 * normal_lccdf(0 | 0, 0.5);
}
model {
  if (!prior_only) {
    vector[N] mu = rep_vector(0.0, N);
    vector[N] zi = rep_vector(0.0, N);
    mu += Intercept + Xc * b;
    zi += Intercept_zi + Xc_zi * b_zi;
    for (n in 1:N) {
      mu[n] += r_1_1[J_1[n]] * Z_1_1[n];
    }
    for (n in 1:N) {
      target += zero_inflated_neg_binomial_log_logit_lpmf(Y[n] | mu[n], shape, zi[n]);
    }
  }
  target += lprior;
  target += std_normal_lpdf(z_1[1]);
}
