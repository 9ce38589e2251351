// data: {"N": 14, "K": 4, "D": 2}
data { int K; int N; int D; array[N] int<lower=1, upper=K> y; array[N] row_vector[D] x; }
parameters { vector[D] beta; ordered[K - 1] c; }
model {
  vector[K] theta;
  c ~ normal(0, 3);
  for (n in 1:N) {
    real eta;
    eta = x[n] * beta;
    theta[1] = 1 - Phi(eta - c[1]);
    for (k in 2:(K - 1)) theta[k] = Phi(eta - c[k - 1]) - Phi(eta - c[k]);
    theta[K] = Phi(eta - c[K - 1]);
    y[n] ~ categorical(theta);
  }
}
