// data: {"N": 8, "K": 2}
data { int N; int K; array[N, K] real y; vector[K] m; }
parameters { vector[K] b; vector<lower=0>[K] s; }
model {
  vector[N] total;
  for (n in 1:N) {
    total[n] = 0;
    for (k in 1:K) { total[n] += y[n, k] * b[k]; y[n, k] ~ normal(b[k], s[k]); }
  }
  total ~ normal(0, 3); b ~ normal(m, 1);
}
