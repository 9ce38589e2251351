// data: {"N": 12, "K": 2}
functions {
  real loglik(vector y, matrix X, vector b, real s, int N) {
    vector[N] mu = X * b;
    return normal_lpdf(y | mu, s) - N * log(s);
  }
}
data { int N; int K; vector[N] y; matrix[N, K] X; }
parameters { vector[K] b; real<lower=0> s; }
model { target += loglik(y, X, b, s, N); target += normal_lpdf(b | 0, 1); }
