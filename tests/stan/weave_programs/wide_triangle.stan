// data: {"K": 5, "upto": 5}
// Each pair of K is a cell, in an upper and a lower triangle, and all but the diagonal.
data { int K; int upto; array[K, K] int<lower=0> y; matrix[K, K] x; }
parameters { vector[K] a; vector[K] r; real b; }
model {
  a ~ normal(0, 1);
  r ~ normal(0, 1);
  for (i in 1:upto) for (j in i:upto) y[i, j] ~ poisson_log(a[i] + a[j]);
  for (i in 2:upto) for (j in 1:(i - 1)) x[i, j] ~ normal(a[i] - r[j] + b * y[j, i], 1);
  for (i in 1:upto) for (j in 1:upto) if (i != j) target += normal_lpdf(x[i, j] | b * x[j, i], 2);
}
