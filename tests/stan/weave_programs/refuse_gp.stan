// refuse: 9 Gaussian process|joint
data { int<lower=1> N; array[N] real x; vector[N] y; }
transformed data { vector[N] mu = rep_vector(0, N); }
parameters { real<lower=0> rho; real<lower=0> alpha; real<lower=0> sigma; }
model {
  matrix[N, N] K = gp_exp_quad_cov(x, alpha, rho);
  matrix[N, N] L = cholesky_decompose(add_diag(K, square(sigma)));
  rho ~ inv_gamma(5, 5);
  y ~ multi_normal_cholesky(mu, L);
}
