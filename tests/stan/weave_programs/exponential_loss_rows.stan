// data: {"N": 12, "K": 2}
data { int N; int K; matrix[N, K] X; vector<lower=0>[N] t; array[N] int<lower=0, upper=1> d; }
parameters { vector[K] b; real<lower=0> shape; real a; }
model {
  vector[N] mu = exp(-(a + X * b) / shape);
  for (n in 1:N) {
    if (d[n] == 1) { target += weibull_lpdf(t[n] | shape, mu[n]); continue; }
    target += weibull_lccdf(t[n] | shape, mu[n]);
  }
  b ~ normal(0, 1);
}
