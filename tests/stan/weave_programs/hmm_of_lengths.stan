// data: {"N": 8, "T": 5, "K": 2, "L": "rng.integers(1, 6, N)"}
// A chain for each row, of its own length, in a scratch array for all rows.
data { int<lower=1> N; int<lower=1> T; int<lower=1> K; array[N] int<lower=1, upper=T> L; array[N, T] int<lower=1, upper=3> y; }
parameters { array[K] simplex[K] theta; array[K] simplex[3] phi; simplex[K] pi1; }
model {
  array[T, K] real gamma;
  array[K] real acc;
  for (n in 1 : N) {
    for (k in 1 : K) gamma[1, k] = log(pi1[k]) + log(phi[k, y[n, 1]]);
    for (t in 2 : L[n]) {
      for (k in 1 : K) {
        for (j in 1 : K) acc[j] = gamma[t - 1, j] + log(theta[j, k]) + log(phi[k, y[n, t]]);
        gamma[t, k] = log_sum_exp(acc);
      }
    }
    target += log_sum_exp(gamma[L[n]]);
  }
}
