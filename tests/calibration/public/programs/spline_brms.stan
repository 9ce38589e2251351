// y ~ s(x, k = 9) + z, as brms writes it.
data {
  int<lower=1> N;
  vector[N] Y;
  int<lower=1> K;
  matrix[N, K] X;
  int<lower=1> Kc;
  // data for splines
  int Ks;
  matrix[N, Ks] Xs;
  // data for spline 1
  int nb_1;
  array[nb_1] int knots_1;
  matrix[N, knots_1[1]] Zs_1_1;
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
  vector[Ks] bs;
  vector[knots_1[1]] zs_1_1;
  vector<lower=0>[nb_1] sds_1;
  real<lower=0> sigma;
}
transformed parameters {
  vector[knots_1[1]] s_1_1;
  real lprior = 0;
  s_1_1 = sds_1[1] * zs_1_1;
  lprior += normal_lpdf(b | 0, 1);
  lprior += normal_lpdf(Intercept | 0, 1);
  lprior += normal_lpdf(bs | 0, 1);
  lprior += student_t_lpdf(sds_1 | 5, 0, 1)
    - 1 * student_t_lccdf(0 | 5, 0, 1);
  lprior += exponential_lpdf(sigma | 1);
}
model {
  if (!prior_only) {
    vector[N] mu = rep_vector(0.0, N);
    mu += Intercept + Xc * b + Xs * bs + Zs_1_1 * s_1_1;
    target += normal_lpdf(Y | mu, sigma);
  }
  target += lprior;
  target += std_normal_lpdf(zs_1_1);
}
