// data: {"N": 9, "K": 4}
data { int N; int K; vector[N] y; matrix[N, K] X; }
parameters { real a; vector[K] b; }
model {
  int n = 1;
  a ~ normal(0, 1); b ~ normal(0, 1);
  {
    int m = 1;
    while (m < N + 1) {
      real mu = a;
      int k = 1;
      while (k <= K) { mu += X[m, k] * b[k]; k = k + 1; }
      y[m] ~ normal(mu, n);
      m += 1;
    }
  }
}
