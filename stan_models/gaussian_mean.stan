// Mean of a multivariate Gaussian with known covariance, weighted
//
//   y[n] ~ multi_normal(mu, Sigma),   n = 1..N,   Sigma known
//   mu   ~ multi_normal(mu0, Sigma0)
//
//   log density = log prior + sum_n weights[n] * log p(y[n] | mu)
//   log p(y | mu) = -|z - m|^2 / 2 - log |Sigma| / 2 - D log(2 pi) / 2
//   with Sigma = L L',  z = L^{-1} (y - mu0),  m = L^{-1} (mu - mu0)
//
// The posterior is known in closed form, for any weights:
//   precision = Sigma0^{-1} + (sum_n weights[n]) Sigma^{-1}
//   mean      = precision^{-1} (Sigma0^{-1} mu0 + Sigma^{-1} sum_n weights[n] y[n])
//
// Data
//   N        number of observations
//   D        dimension of an observation
//   y        N x D   observations, one a row
//   weights  N       1 for every row is the ordinary model, 0 is the prior alone
//   Sigma    D x D   covariance of an observation
//   mu0      D       prior mean
//   Sigma0   D x D   prior covariance
//
// Another prior: change the line marked "prior".
data {
  int<lower=0> N;
  int<lower=1> D;
  matrix[N, D] y;
  vector<lower=0>[N] weights;
  cov_matrix[D] Sigma;
  vector[D] mu0;
  cov_matrix[D] Sigma0;
}
transformed data {
  matrix[D, D] L = cholesky_decompose(Sigma);
  matrix[D, D] L0 = cholesky_decompose(Sigma0);
  real log_norm = sum(log(diagonal(L))) + 0.5 * D * log(2 * pi());
  matrix[N, D] z = mdivide_left_tri_low(L, (y - rep_matrix(mu0', N))')';
  vector[N] z_squared = rows_dot_self(z);
}
parameters {
  vector[D] mu;
}
model {
  vector[D] m = mdivide_left_tri_low(L, mu - mu0);
  target += multi_normal_cholesky_lpdf(mu | mu0, L0); // prior
  // sum_n weights[n] |z[n] - m|^2, expanded: nothing of size N depends on mu
  target += dot_product(m, z' * weights)
            - 0.5 * (dot_product(weights, z_squared) + sum(weights) * dot_self(m))
            - sum(weights) * log_norm;
}
generated quantities {
  vector[N] log_lik;
  {
    vector[D] m = mdivide_left_tri_low(L, mu - mu0);
    log_lik = z * m - 0.5 * (z_squared + dot_self(m)) - log_norm;
  }
}
