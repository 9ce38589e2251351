// data: {"N": 9, "K": 2, "J": 3}
// Coefficients as a matrix of one column, as matrix libraries write vectors.
data {
  int N; int K; int J; matrix[N, K] X; vector[N] y; array[N] int<lower=1, upper=J> g;
}
parameters { matrix[K, 1] b; vector[J] u; real<lower=0> s; }
model {
  to_vector(b) ~ normal(0, 2);
  u ~ std_normal();
  s ~ exponential(1);
  y ~ normal(to_vector(X * b) + u[g], s);
}
