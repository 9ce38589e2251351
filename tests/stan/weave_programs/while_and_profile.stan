// data: {"N": 12, "K": 3}
data { int N; int K; matrix[N, K] X; vector[N] y; }
parameters { vector[K] b; real<lower=0> s; }
model {
  int k = 1;
  vector[N] mu = rep_vector(0, N);
  while (k <= K) { mu += X[, k] * b[k]; k += 1; }
  profile("likelihood") { y ~ normal(mu, s); }
  if (K > 2) b ~ normal(0, 1); else b ~ normal(0, 2);
}
