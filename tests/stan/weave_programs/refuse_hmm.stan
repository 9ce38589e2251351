// refuse: \d+ .*`gamma\[t - 1, j\]`.*hidden Markov
data { int K; int T; array[T] real y; }
parameters { array[K] simplex[K] theta; ordered[K] mu; }
model {
  array[T, K] real gamma;
  for (k in 1:K) gamma[1, k] = normal_lpdf(y[1] | mu[k], 1);
  for (t in 2:T)
    for (k in 1:K) {
      array[K] real acc;
      for (j in 1:K) acc[j] = gamma[t - 1, j] + log(theta[j, k]) + normal_lpdf(y[t] | mu[k], 1);
      gamma[t, k] = log_sum_exp(acc);
    }
  target += log_sum_exp(gamma[T]);
}
