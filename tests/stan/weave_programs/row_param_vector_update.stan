// data: {"N": 8, "K": 3}
data { int N; int K; matrix[N, K] X; array[N] int<lower=1, upper=K> y; }
parameters { vector[K] a; matrix[K, K] B; }
model {
  vector[K] eta;
  for (n in 1:N) {
    eta = a + B * X[n]';
    for (k in 1:K) if (k > 1) eta[k] += 0.5 * a[k];
    target += eta[y[n]] - log_sum_exp(eta);
  }
  a ~ normal(0, 1); to_vector(B) ~ normal(0, 1);
}
