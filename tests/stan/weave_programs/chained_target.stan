// data: {"N": 12, "T": 3, "K": 2, "y": "rng.normal(size=(N, T))", "z": "rng.normal(size=(N, K))"}
data { int N; int T; int K; array[N] vector[T] y; array[N] vector[K] z; vector[N] x; }
parameters { array[K] simplex[K] A; ordered[K] mu; vector[K] b; cholesky_factor_corr[K] L; }
transformed parameters {
  array[N] vector[K] eta;
  for (n in 1:N) for (k in 1:K) eta[n][k] = mu[k] + b[k] * x[n];
}
model {
  array[T] vector[K] gamma;
  vector[K] acc;
  array[N] vector[K] lp;
  mu ~ normal(0, 2);
  z ~ multi_normal_cholesky(eta, L);
  for (n in 1:N) {
    lp[n][1] = normal_lpdf(x[n] | mu[1], 1);
    lp[n][2] = normal_lpdf(x[n] | mu[2], 1);
    target += log_sum_exp(lp[n]);
    for (k in 1:K) gamma[1][k] = normal_lpdf(y[n][1] | mu[k], 1);
    for (t in 2:T) {
      for (k in 1:K) {
        for (j in 1:K) acc[j] = gamma[t - 1][j] + log(A[j][k]) + normal_lpdf(y[n][t] | mu[k], 1);
        gamma[t][k] = log_sum_exp(acc);
      }
    }
    target += log_sum_exp(gamma[T]);
  }
}
