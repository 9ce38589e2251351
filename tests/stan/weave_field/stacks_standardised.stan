data {
  int<lower=0> N;
  int<lower=0> p;
  array[N] real Y;
  matrix[N, p] x;
}
transformed data {
  matrix[N, p] z;
  row_vector[p] mean_x;
  array[p] real sd_x;
  real d;
  for (j in 1 : p) {
    mean_x[j] = mean(col(x, j));
    sd_x[j] = sd(col(x, j));
    for (i in 1 : N) 
      z[i, j] = (x[i, j] - mean_x[j]) / sd_x[j];
  }
  d = pi() / sqrt(3.0);
}
parameters {
  real beta0;
  vector[p] beta;
  real<lower=0> sigmasq;
  real<lower=0> phi;
}
transformed parameters {
  real<lower=0> sigma = d * sqrt(sigmasq);
  vector[N] mu;
  mu = beta0 + z * beta;
}
model {
  beta0 ~ normal(0, 316);
  phi ~ gamma(0.01, 0.01);
  beta ~ normal(0, sqrt(phi));
  sigmasq ~ inv_gamma(.001, .001);
  for (n in 1 : N) 
    Y[n] ~ logistic(mu[n], sqrt(sigmasq));
}
generated quantities {
  real b0;
  b0 = beta0 - mean_x * beta;
  real outlier3;
  outlier3 = abs((Y[3] - mu[3]) / sigma) > 2.5;
}

