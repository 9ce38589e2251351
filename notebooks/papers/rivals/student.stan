// linear regression with Student-t errors, as brms writes it
data {
  int<lower=1> N;
  vector[N] Y;
  int<lower=1> Kc;
  matrix[N, Kc] Xc;
}
parameters {
  vector[Kc] b;
  real Intercept;
  real<lower=0> sigma;
  real<lower=1> nu;
}
transformed parameters {
  real lprior = 0;
  lprior += normal_lpdf(b | 0, 2.5);
  lprior += student_t_lpdf(Intercept | 3, 0, 2.5);
  lprior += student_t_lpdf(sigma | 3, 0, 2.5) - 1 * student_t_lccdf(0 | 3, 0, 2.5);
  lprior += gamma_lpdf(nu | 2, 0.1) - 1 * gamma_lccdf(1 | 2, 0.1);
}
model {
  vector[N] mu = rep_vector(0.0, N);
  mu += Intercept + Xc * b;
  target += student_t_lpdf(Y | nu, mu, sigma);
  target += lprior;
}
