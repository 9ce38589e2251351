// data: {"N": 7, "K": 2}
// The block leaves the first row out.
data { int N; int K; matrix[N, K] X; vector[N] y; }
parameters { vector[K] b; real<lower=0> s; }
model {
  b ~ normal(0, 1);
  y[2:N] ~ normal(block(X, 2, 1, N - 1, K) * b, s);
}
