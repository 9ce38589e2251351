// refuse: \d+ `logp` keeps a value of the previous observation.* make each series one row$
// Tracks one after the other: what a row carries along is told, not that its number decides.
data { int N; int K; array[N] int id; vector<lower=0>[N] step; }
parameters { positive_ordered[K] rate; array[K] simplex[K] P; }
model {
  vector[K] logp;
  vector[K] next;
  for (n in 1:N) {
    if (n == 1 || id[n] != id[n - 1]) logp = rep_vector(-log(K), K);
    for (k in 1:K) {
      next[k] = log_sum_exp(log(to_vector(P[:, k])) + logp) + exponential_lpdf(step[n] | rate[k]);
    }
    logp = next;
    if (n == N || id[n + 1] != id[n]) target += log_sum_exp(logp);
  }
}
