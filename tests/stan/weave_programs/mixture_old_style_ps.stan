// data: {"N": 12, "K": 3}
data { int K; int N; array[N] real y; }
parameters { simplex[K] theta; array[K] real mu; real<lower=0> sigma; }
model {
  array[K] real ps;
  mu ~ normal(0, 10);
  for (n in 1:N) {
    for (k in 1:K) {
      ps[k] = log(theta[k]) + normal_lpdf(y[n] | mu[k], sigma);
    }
    target += log_sum_exp(ps);
  }
}
