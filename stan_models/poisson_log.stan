// Poisson regression with log link, weighted
//
//   y[n] ~ Poisson(exp(eta[n])),   eta[n] = alpha + X[n] * beta,   n = 1..N
//   alpha ~ normal(0, alpha_scale)
//   beta  ~ normal(0, beta_scale)
//
//   log density = log prior + sum_n weights[n] * log p(y[n] | alpha, beta)
//   log p(y | eta) = y * eta - exp(eta) - log(y!)
//
// Data
//   N            number of observations
//   D            number of predictors, without the intercept
//   X            N x D   predictors; centre and scale them for good geometry
//   y            N       counts, 0, 1, 2, ...
//   weights      N       1 for every row is ordinary Poisson regression, 0 is the prior alone
//   alpha_scale  prior sd of the intercept on the log scale, for example 5
//   beta_scale   prior sd of each coefficient, for example 2.5
//
// Another prior: change the two lines marked "prior". An exposure: declare
// `vector[N] log_exposure;` in the data and add it to eta in both places.
data {
  int<lower=0> N;
  int<lower=0> D;
  matrix[N, D] X;
  array[N] int<lower=0> y;
  vector<lower=0>[N] weights;
  real<lower=0> alpha_scale;
  real<lower=0> beta_scale;
}
transformed data {
  vector[N] weighted_y = weights .* to_vector(y);
  vector[N] log_factorial = lgamma(to_vector(y) + 1);
}
parameters {
  real alpha;
  vector[D] beta;
}
model {
  vector[N] eta = alpha + X * beta;
  target += normal_lpdf(alpha | 0, alpha_scale); // prior
  target += normal_lpdf(beta | 0, beta_scale); // prior
  target += dot_product(weighted_y, eta) - dot_product(weights, exp(eta))
            - dot_product(weights, log_factorial);
}
generated quantities {
  vector[N] log_lik;
  {
    vector[N] eta = alpha + X * beta;
    log_lik = to_vector(y) .* eta - exp(eta) - log_factorial;
  }
}
