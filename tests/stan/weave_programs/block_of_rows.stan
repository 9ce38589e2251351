// data: {"N": 9, "K": 4, "L": 2}
// Columns cut out of the design matrix: all rows of them.
data { int N; int K; int L; matrix[N, K] X; vector[N] y; }
parameters { vector[L] b; vector[K - L] c; real<lower=0> s; }
model {
  b ~ normal(0, 1);
  c ~ normal(0, 1);
  y ~ normal(block(X, 1, 1, N, L) * b + block(X, 1, L + 1, rows(X), K - L) * c, s);
  head(y, N) ~ normal(sub_col(X, 1, 2, N) * b[1], s);
  for (n in 1:N) y[n] ~ student_t(4, block(X, 1, 1, N, L)[n] * b, s);
}
