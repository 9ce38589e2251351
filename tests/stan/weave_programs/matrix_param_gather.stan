// data: {"N": 9, "J": 3, "K": 2}
data { int N; int J; int K; array[N] int<lower=1, upper=J> j; array[N] int<lower=1, upper=K> k; vector[N] y; matrix[N, K] X; }
parameters { matrix[J, K] B; matrix[J, K] A; real<lower=0> s; }
model {
  to_vector(B) ~ normal(0, 1); to_vector(A) ~ std_normal();
  y ~ normal(rows_dot_product(X, B[j]) + A[j, 1] .* X[, 2] + B[j, 2], s);
  for (n in 1:N) y[n] ~ normal(A[j[n], k[n]], s);
}
