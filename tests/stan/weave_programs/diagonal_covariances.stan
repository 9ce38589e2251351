// data: {"N": 7, "K": 2, "J": 3}
// Normal densities of vectors whose entries are independent of each other.
data { int N; int K; int J; matrix[N, K] X; vector[N] y; vector[N] z; vector[N] u; vector<lower=0>[N] se; array[N] int<lower=1, upper=J> g; }
parameters { vector[K] b; vector[J] a; real<lower=0> sigma; }
model {
  y ~ multi_normal(X * b + a[g], diag_matrix(rep_vector(square(sigma), N)));
  target += multi_normal_cholesky_lpdf(z | rep_vector(b[1], N), diag_matrix(sqrt(square(se) + square(sigma))));
  target += multi_normal_prec_lpdf(u | a[g], sigma ^ -2 * identity_matrix(N));
  b ~ multi_normal(rep_vector(0, K), identity_matrix(K) * 4);
  a ~ multi_normal_cholesky(rep_vector(0, J), diag_matrix(rep_vector(sigma, J)));
}
