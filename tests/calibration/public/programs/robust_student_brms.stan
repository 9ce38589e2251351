// y ~ x1 + x2 + x3, family = student()
functions {
  /* compute the logm1 link
   */
  real logm1(real y) {
    return log(y - 1.0);
  }
  real expp1(real y) {
    return exp(y) + 1.0;
  }
}
data {
  int<lower=1> N;
  vector[N] Y;
  int<lower=1> K;
  matrix[N, K] X;
  int<lower=1> Kc;
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
  real<lower=1> nu;
}
transformed parameters {
  real lprior = 0;
  lprior += normal_lpdf(b | 0, 1);
  lprior += student_t_lpdf(Intercept | 3, 0, 1);
  lprior += student_t_lpdf(sigma | 3, 0, 1)
    - 1 * student_t_lccdf(0 | 3, 0, 1);
  lprior += gamma_lpdf(nu | 4, 0.5)
    - 1 * gamma_lccdf(1 | 4, 0.5);
}
model {
  if (!prior_only) {
    vector[N] mu = rep_vector(0.0, N);
    mu += Intercept + Xc * b;
    target += student_t_lpdf(Y | nu, mu, sigma);
  }
  target += lprior;
}
generated quantities {
  real b_Intercept = Intercept - dot_product(means_X, b);
}
