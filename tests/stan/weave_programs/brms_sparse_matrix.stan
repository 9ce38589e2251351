// data: {"N": 9, "K": 3, "prior_only": 0}
// brms, sparse = TRUE: X is given as it is, and multiplied as a sparse matrix.
data {
  int<lower=1> N;
  array[N] int<lower=0> Y;
  int<lower=1> K;
  matrix[N, K] X;
  int prior_only;
}
transformed data {
  vector[rows(csr_extract_w(X))] wX = csr_extract_w(X);
  array[size(csr_extract_v(X))] int vX = csr_extract_v(X);
  array[size(csr_extract_u(X))] int uX = csr_extract_u(X);
}
parameters {
  vector[K] b;
}
model {
  if (!prior_only) {
    vector[N] mu = rep_vector(0.0, N);
    mu += csr_matrix_times_vector(rows(X), cols(X), wX, vX, uX, b);
    target += poisson_log_lpmf(Y | mu);
  }
  target += normal_lpdf(b | 0, 2);
}
