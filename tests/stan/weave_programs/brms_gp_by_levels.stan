// data: {"N": 11, "M": 3, "n_1": 5, "I_1": [2, 3, 5, 8, 11], "n_2": 4, "I_2": [9, 1, 4, 7], "J_1": [1, 2, 3, 1, 2], "J_2": [3, 3, 1, 2]}
// brms, gp(x, by = f): the process of each level is added to the rows that have it.
data {
  int<lower=1> N;
  vector[N] Y;
  int<lower=1> M;
  matrix[M, 2] basis;
  int<lower=0> n_1;
  array[n_1] int<lower=1> I_1;
  vector[n_1] C_1;
  array[n_1] int<lower=1, upper=M> J_1;
  int<lower=0> n_2;
  array[n_2] int<lower=1> I_2;
  array[n_2] int<lower=1, upper=M> J_2;
}
parameters {
  vector[2] z_1;
  vector[2] z_2;
  real<lower=0> scale;
  real<lower=0> sigma;
}
model {
  vector[N] mu = rep_vector(0.0, N);
  vector[M] f_1 = basis * (scale * z_1);
  vector[M] f_2 = basis * (scale * z_2);
  mu[I_1] += C_1 .* f_1[J_1];
  mu[I_2] = 2 * mu[I_2] - exp(f_2[J_2]) / scale;
  target += normal_lpdf(Y | mu, sigma);
  z_1 ~ normal(0, 1);
  z_2 ~ normal(0, 1);
  scale ~ exponential(1);
  sigma ~ exponential(1);
}
