// Robust linear regression with Student-t errors, weighted
//
//   y[n] ~ student_t(nu, eta[n], sigma),   eta[n] = alpha + X[n] * beta,   n = 1..N
//   alpha ~ normal(0, alpha_scale)
//   beta  ~ normal(0, beta_scale)
//   sigma ~ normal(0, sigma_scale), sigma > 0
//   nu    ~ gamma(nu_shape, nu_rate), nu > 1
//
//   log density = log prior + sum_n weights[n] * log p(y[n] | alpha, beta, sigma, nu)
//   log p(y | eta, sigma, nu) = lgamma((nu + 1) / 2) - lgamma(nu / 2) - log(nu pi) / 2 - log(sigma)
//                               - (nu + 1) / 2 * log(1 + ((y - eta) / sigma)^2 / nu)
//
// Data
//   N            number of observations
//   D            number of predictors, without the intercept
//   X            N x D   predictors; centre and scale them for good geometry
//   y            N       outcomes
//   weights      N       1 for every row is the ordinary regression, 0 is the prior alone
//   alpha_scale  prior sd of the intercept, for example 10 times the sd of y
//   beta_scale   prior sd of each coefficient, for example 2.5 times the sd of y
//   sigma_scale  prior scale of the error scale, for example the sd of y
//   nu_shape     prior shape of the degrees of freedom, for example 2
//   nu_rate      prior rate of the degrees of freedom, for example 0.1
//
// The prior of nu is not renormalised for nu > 1: a constant, which changes no posterior.
// Another prior: change the four lines marked "prior".
data {
  int<lower=0> N;
  int<lower=0> D;
  matrix[N, D] X;
  vector[N] y;
  vector<lower=0>[N] weights;
  real<lower=0> alpha_scale;
  real<lower=0> beta_scale;
  real<lower=0> sigma_scale;
  real<lower=0> nu_shape;
  real<lower=0> nu_rate;
}
parameters {
  real alpha;
  vector[D] beta;
  real<lower=0> sigma;
  real<lower=1> nu;
}
model {
  vector[N] residual = (y - (alpha + X * beta)) / sigma;
  target += normal_lpdf(alpha | 0, alpha_scale); // prior
  target += normal_lpdf(beta | 0, beta_scale); // prior
  target += normal_lpdf(sigma | 0, sigma_scale); // prior
  target += gamma_lpdf(nu | nu_shape, nu_rate); // prior
  target += sum(weights)
            * (lgamma(0.5 * (nu + 1)) - lgamma(0.5 * nu) - 0.5 * log(nu * pi()) - log(sigma))
            - 0.5 * (nu + 1) * dot_product(weights, log1p(square(residual) / nu));
}
generated quantities {
  vector[N] log_lik;
  {
    vector[N] residual = (y - (alpha + X * beta)) / sigma;
    log_lik = lgamma(0.5 * (nu + 1)) - lgamma(0.5 * nu) - 0.5 * log(nu * pi()) - log(sigma)
              - 0.5 * (nu + 1) * log1p(square(residual) / nu);
  }
}
