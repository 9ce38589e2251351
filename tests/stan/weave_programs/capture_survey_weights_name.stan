// data: {"N": 12, "K": 3}
data { int N; int K; vector[N] y; }
parameters { simplex[K] weights; ordered[K] mu; }
model {
  real log_lik;
  log_lik = normal_lpdf(mu | 0, 5);
  target += log_lik;
  for (n in 1:N) { vector[K] lp; for (k in 1:K) lp[k] = log(weights[k]) + normal_lpdf(y[n] | mu[k], 1); target += log_sum_exp(lp); }
}
