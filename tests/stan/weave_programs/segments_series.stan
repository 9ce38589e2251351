// data: {"N": 12, "M": 9, "K": 4, "s": [4, 0, 3, 5], "m": [2, 4, 2, 1], "J": 2, "g": [1, 2, 2, 1], "skip": [0, 0, 1, 0]}
// Two positions, which a condition on data moves, and a state carried from row to row.
data {
  int N; int M; int K; int J; array[K] int<lower=1, upper=J> g; vector[N] y; vector[M] z;
  array[K] int s; array[K] int m; array[K] int skip;
}
parameters { vector[J] mu; real<lower=-1, upper=1> phi; real<lower=0> sigma; }
model {
  int pos = 1;
  int start = 0;
  real last;
  mu ~ normal(0, 3);
  for (k in 1:K) {
    if (skip[k] == 0) {
      last = log_sum_exp(z[(start + 1):(start + m[k])]);
      for (i in 1:s[k]) {
        y[pos] ~ normal(mu[g[k]] + phi * (last - mu[g[k]]), sigma);
        last = y[pos];
        pos += 1;
      }
    } else {
      pos += s[k];
    }
    start = m[k] + start;
  }
}
