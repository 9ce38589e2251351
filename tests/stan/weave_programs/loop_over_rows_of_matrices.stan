// data: {"N": 11, "K": 3}
// obs: N
// The same cells by row and by column; scales of a row, and parts of a row, keep the loop.
data { int N; int K; matrix[N, K] Y; matrix[K, N] Z; matrix[N, 2] X; vector<lower=0>[N] r; }
parameters { matrix[2, K] B; real<lower=0> s; }
model {
  matrix[N, K] M = X * B;
  matrix[K, N] T = M';
  for (n in 1:N) Y[n] ~ student_t(4, M[n, :], s);
  for (n in 1:N) target += normal_lpdf(Z[:, n] | T[, n], s);
  for (n in 1:N) Y[n] ~ normal(M[n], s * r[n]);
  for (n in 1:N) Y[n] ~ logistic(M[n], s);
  for (n in 1:N) Y[n][1:2] ~ normal(M[n][1:2], s);
  for (n in 1:N) Y[n] ~ normal(B[1], s);
  for (n in 1:N) Z[, n] ~ normal(M[n], s);
  for (n in 1:N) Y[n] ~ normal(0, s);
  to_vector(B) ~ normal(0, 1); s ~ exponential(1);
}
