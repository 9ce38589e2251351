// The upper quartile of rents: an asymmetric Laplace likelihood.
functions {
  real asym_laplace_lpdf(real y, real mu, real sigma, real quantile) {
    return log(quantile * (1 - quantile)) - log(sigma)
           - (y - mu) / sigma * (quantile - (y < mu ? 1 : 0));
  }
}
data {
  int<lower=1> N;
  vector[N] rent;
  vector[N] area;
  vector[N] central;
  real<lower=0, upper=1> quantile;
}
parameters {
  real a;
  real b_area;
  real b_central;
  real<lower=0> sigma;
}
model {
  a ~ normal(0, 1);
  b_area ~ normal(0, 1);
  b_central ~ normal(0, 1);
  sigma ~ exponential(2);
  for (n in 1:N) {
    rent[n] ~ asym_laplace(a + b_area * area[n] + b_central * central[n], sigma, quantile);
  }
}
