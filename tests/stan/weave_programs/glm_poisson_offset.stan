// data: {"N": 12, "K": 2}
data {
  int N; int K;
  matrix[N, K] X;
  vector<lower=0>[N] exposure;
  array[N] int<lower=0> y;
}
transformed data { vector[N] log_exposure = log(exposure); }
parameters { vector[K] beta; real alpha; }
model {
  beta ~ std_normal();
  alpha ~ normal(0, 2);
  y ~ poisson_log_glm(X, alpha + log_exposure, beta);
}
