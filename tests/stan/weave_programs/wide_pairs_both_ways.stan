// data: {"N": 5, "upto": 5}
// Both directions of a pair in one loop: each is a cell of its own.
data { int N; int upto; array[N, N] int<lower=0> ties; matrix[N, N] d; }
parameters { vector[N] a; vector[N] r; real b; real m; real<lower=0> sa; }
model {
  a ~ normal(0, sa);
  r ~ normal(0, 1);
  for (i in 1:(upto - 1)) for (j in (i + 1):upto) {
    ties[i, j] ~ poisson_log(m + a[i] + r[j] + b * d[i, j]);
    ties[j, i] ~ poisson_log(m + a[j] + r[i] + b * d[i, j]);
  }
}
