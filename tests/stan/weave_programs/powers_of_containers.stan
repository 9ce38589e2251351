// data: {"N": 7, "K": 2}
// ^ works entry by entry on vectors and matrices.
data { int N; int K; vector[N] y; matrix[N, K] X; }
parameters { real m; real<lower=0> s; vector[K] b; }
model {
  vector[N] e = (y - m) ^ 2;
  target += -0.5 * sum(e) / s ^ 2 - N * log(s);
  target += -sum((y - X ^ 2 * b) ^ 4);
  for (n in 1:N) y[n] ~ normal(X[n] ^ 2 * b, s);
  y ~ student_t(3, 2 ^ y * m, s);
  b ~ normal(0, 1);
}
