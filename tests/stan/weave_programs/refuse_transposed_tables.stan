// refuse: 4 .Z. has observations in rows and columns
// A table and another with rows and columns exchanged: cells of one alone would leave the other as it is.
data { int N; int K; matrix[N, K] Y; matrix[K, N] Z; }
parameters { vector[K] m; real<lower=0> s; }
model {
  for (n in 1:N) Y[n] ~ normal(m, s);
  for (n in 1:N) Z[:, n] ~ normal(m, s);
}
