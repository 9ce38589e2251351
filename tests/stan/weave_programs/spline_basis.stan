// data: {"N": 15, "K": 4}
data { int N; int K; vector[N] Y; matrix[K, N] B; vector[N] X; }
parameters { row_vector[K] a_raw; real a0; real<lower=0> sigma; real<lower=0> tau; }
transformed parameters {
  row_vector[K] a;
  vector[N] Y_hat;
  a[1] = a_raw[1];
  for (i in 2:K) a[i] = a[i - 1] + a_raw[i] * tau;
  Y_hat = a0 * X + to_vector(a * B);
}
model {
  a_raw ~ normal(0, 1);
  tau ~ normal(0, 1);
  sigma ~ exponential(1);
  Y ~ normal(Y_hat, sigma);
}
