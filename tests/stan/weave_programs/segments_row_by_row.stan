// data: {"N": 11, "J": 3, "s": [4, 3, 4], "first": [1, 5, 8], "last": [4, 7, 11], "z": "rng.integers(0, 2, N)"}
// Rows of segments one by one: by a position that is counted up, and by loops over parts of rows.
data {
  int N; int J; array[J] int s; array[J] int first; array[J] int last;
  vector[N] y; matrix[N, 2] x; array[N] int z;
}
parameters { vector[J] a; matrix[J, 2] b; real<lower=0> sigma; real m; }
model {
  int pos = 1;
  int k = 0;
  a ~ normal(m, 1);
  to_vector(b) ~ normal(0, 1);
  for (j in 1:J) {
    for (t in 1:s[j]) {
      y[pos] ~ normal(a[j] + 0.1 * t * x[pos, 1], sigma);
      pos += 1;
    }
  }
  for (j in 1:J) {
    for (t in 1:s[j]) {
      k = k + 1;
      if (t > 1) y[k] ~ student_t(4, a[j], 2);
    }
  }
  pos = 1;
  for (j in 1:J) {
    for (i in pos:(pos + s[j] - 1)) y[i] ~ logistic(a[j] + m * x[i, 2], 2);
    pos += s[j];
  }
  for (j in 1:J) {
    int from = first[j];
    int to = last[j];
    y[from:to] ~ cauchy(block(x, from, 1, to - from + 1, 2) * b[j]', 3);
    for (n in from:to) {
      real eta = a[j] + x[n] * b[j]';
      if (x[n, 2] > 0) eta += m;
      z[n] ~ bernoulli_logit(eta);
    }
  }
}
