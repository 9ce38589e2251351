// data: {"N": 10, "K": 2, "Y": "rng.integers(0, 2, N) * rng.uniform(0.5, 3, N)"}
functions {
  real hurdle_gamma_lpdf(real y, real alpha, real beta, real hu) {
    if (y == 0) { return bernoulli_lpmf(1 | hu); } else { return bernoulli_lpmf(0 | hu) + gamma_lpdf(y | alpha, beta); }
  }
}
data { int N; vector[N] Y; int K; matrix[N, K] X; }
parameters { vector[K] b; real<lower=0> shape; real<lower=0, upper=1> hu; }
model {
  vector[N] mu = rep_vector(0.0, N);
  mu += X * b;
  mu = exp(mu);
  for (n in 1:N) { target += hurdle_gamma_lpdf(Y[n] | shape, shape / mu[n], hu); }
}
