// data: {"N": 6, "K": 2}
data { int N; int K; array[N] vector[K] y; array[N] vector[K] x; }
parameters { real<lower=0> s; real<lower=-1, upper=1> r; vector[K] m; }
model {
  matrix[K, K] S;
  for (n in 1:N) {
    for (i in 1:K) for (j in 1:K) S[i, j] = i == j ? s^2 * exp(0.1 * x[n, i]) : r * 0.1 * s^2;
    y[n] ~ multi_normal(m, S);
  }
  s ~ normal(0, 1);
}
