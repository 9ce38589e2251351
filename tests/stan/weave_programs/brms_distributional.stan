// data: {"N": 14, "K": 2, "K_sigma": 2}
data { int N; vector[N] Y; int K; matrix[N, K] X; int K_sigma; matrix[N, K_sigma] X_sigma; }
parameters { vector[K] b; vector[K_sigma] b_sigma; real<lower=1> nu; }
model {
  vector[N] mu = rep_vector(0.0, N);
  vector[N] sigma = rep_vector(0.0, N);
  mu += X * b;
  sigma += X_sigma * b_sigma;
  sigma = exp(sigma);
  target += student_t_lpdf(Y | nu, mu, sigma);
  target += gamma_lpdf(nu | 2, 0.1) - 1 * gamma_lccdf(1 | 2, 0.1);
}
