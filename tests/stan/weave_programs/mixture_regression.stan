// data: {"N": 12, "K": 2, "C": 2}
data { int N; int K; int C; matrix[N, K] X; vector[N] y; }
parameters { simplex[C] theta; array[C] vector[K] b; ordered[C] a; vector<lower=0>[C] s; }
model {
  matrix[N, C] lp;
  for (c in 1:C) {
    vector[N] mu = a[c] + X * b[c];
    for (n in 1:N) lp[n, c] = log(theta[c]) + normal_lpdf(y[n] | mu[n], s[c]);
  }
  for (n in 1:N) target += log_sum_exp(lp[n]);
  for (c in 1:C) b[c] ~ normal(0, 1);
  s ~ normal(0, 1);
}
