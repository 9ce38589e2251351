// Negative binomial regression with log link, weighted
//
//   y[n] ~ NegBinomial2(mu[n], phi),   mu[n] = exp(eta[n]),   eta[n] = alpha + X[n] * beta
//   E y = mu,   Var y = mu + mu^2 / phi
//   alpha ~ normal(0, alpha_scale)
//   beta  ~ normal(0, beta_scale)
//   phi   ~ gamma(phi_shape, phi_rate)
//
//   log density = log prior + sum_n weights[n] * log p(y[n] | alpha, beta, phi)
//   log p(y | eta, phi) = lgamma(y + phi) - lgamma(phi) - log(y!)
//                         + y * (eta - log(phi)) - (y + phi) * log(1 + exp(eta - log(phi)))
//
// Data
//   N            number of observations
//   D            number of predictors, without the intercept
//   X            N x D   predictors; centre and scale them for good geometry
//   y            N       counts, 0, 1, 2, ...
//   weights      N       1 for every row is the ordinary regression, 0 is the prior alone
//   alpha_scale  prior sd of the intercept on the log scale, for example 5
//   beta_scale   prior sd of each coefficient, for example 2.5
//   phi_shape    prior shape of the dispersion, for example 2
//   phi_rate     prior rate of the dispersion, for example 0.1
//
// Another prior: change the three lines marked "prior". An exposure: declare
// `vector[N] log_exposure;` in the data and add it to eta in both places.
data {
  int<lower=0> N;
  int<lower=0> D;
  matrix[N, D] X;
  array[N] int<lower=0> y;
  vector<lower=0>[N] weights;
  real<lower=0> alpha_scale;
  real<lower=0> beta_scale;
  real<lower=0> phi_shape;
  real<lower=0> phi_rate;
}
transformed data {
  vector[N] count = to_vector(y);
  vector[N] log_factorial = lgamma(count + 1);
}
parameters {
  real alpha;
  vector[D] beta;
  real<lower=0> phi;
}
model {
  vector[N] odds = alpha + X * beta - log(phi); // log(mu / phi)
  target += normal_lpdf(alpha | 0, alpha_scale); // prior
  target += normal_lpdf(beta | 0, beta_scale); // prior
  target += gamma_lpdf(phi | phi_shape, phi_rate); // prior
  target += dot_product(weights, lgamma(count + phi)) - sum(weights) * lgamma(phi)
            - dot_product(weights, log_factorial) + dot_product(weights .* count, odds)
            - dot_product(weights .* (count + phi), log1p_exp(odds));
}
generated quantities {
  vector[N] log_lik;
  {
    vector[N] odds = alpha + X * beta - log(phi);
    log_lik = lgamma(count + phi) - lgamma(phi) - log_factorial + count .* odds
              - (count + phi) .* log1p_exp(odds);
  }
}
