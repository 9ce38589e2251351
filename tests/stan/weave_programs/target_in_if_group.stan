// data: {"N": 9, "K": 2, "use": 1}
data { int N; int K; int use; matrix[N, K] X; vector[N] y; vector[N] w; }
parameters { vector[K] b; real<lower=0> s; }
model {
  vector[N] mu = X * b;
  if (use == 1) { mu += w; for (n in 1:N) if (w[n] > 0) { target += normal_lpdf(y[n] | mu[n], s); } else { target += normal_lpdf(y[n] | mu[n], 2 * s); } }
  else { y ~ cauchy(mu, s); }
}
