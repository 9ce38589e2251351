// data: {"N": 10, "K": 3}
data { int N; int K; matrix[N, K] X; vector[N] y; }
parameters { vector[K] b; real<lower=0> s; }
model {
  real mu; vector[K] tmp;
  b ~ normal(0, 1);
  for (i in 1:N) {
    mu = 0;
    for (k in 1:K) { tmp[k] = X[i, k] * b[k]; mu = mu + tmp[k]; }
    y[i] ~ normal(mu, s);
  }
}
