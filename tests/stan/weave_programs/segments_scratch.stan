// data: {"N": 9, "J": 3, "first": [1, 5, 8], "last": [4, 7, 9]}
data { int N; int J; vector[N] y; array[J] int first; array[J] int last; }
parameters { vector[J] mu; real<lower=0> s; }
model {
  mu ~ normal(0, 1);
  s ~ exponential(1);
  for (j in 1:J) {
    real m = mu[j] * s;
    y[first[j]:last[j]] ~ normal(m, s);
  }
}
