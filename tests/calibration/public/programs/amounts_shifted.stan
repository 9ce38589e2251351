// rt ~ x, family = shifted_lognormal(): times after a shift that is below all of them.
data {
  int<lower=1> N;
  vector[N] Y;
  vector[N] x;
}
transformed data {
  real min_Y = min(Y);
}
parameters {
  real b;
  real Intercept;
  real<lower=0> sigma;
  real<lower=0, upper=min_Y> ndt;
}
model {
  vector[N] mu = Intercept + x * b;
  target += lognormal_lpdf(Y - ndt | mu, sigma);
  target += normal_lpdf(b | 0, 0.3);
  target += normal_lpdf(Intercept | -0.7, 0.3);
  target += gamma_lpdf(sigma | 12, 20);
  target += gamma_lpdf(ndt | 9, 40);
}
