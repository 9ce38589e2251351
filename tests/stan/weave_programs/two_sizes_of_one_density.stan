// data: {"N": 9, "len_y": 9, "K": 2}
// rstanarm: the outcome has a size of its own, which must equal the number of rows.
data {
  int<lower=0> N;
  int<lower=0> K;
  matrix[N, K] X;
  int<lower=0> len_y;
  vector[len_y] y;
}
parameters {
  vector[K] beta;
  real<lower=0> sigma;
}
model {
  vector[N] eta = X * beta;
  target += normal_lpdf(y | eta, sigma) + normal_lpdf(beta | 0, 1) + exponential_lpdf(sigma | 1);
}
