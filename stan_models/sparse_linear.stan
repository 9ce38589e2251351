// Sparse linear regression with a Laplace prior, weighted
//
//   y[n] ~ normal(eta[n], sigma),   eta[n] = alpha + X[n] * beta,   n = 1..N
//   alpha ~ normal(0, alpha_scale)
//   beta  ~ double_exponential(0, beta_scale)
//   sigma ~ normal(0, sigma_scale), sigma > 0
//
//   log density = log prior + sum_n weights[n] * log p(y[n] | alpha, beta, sigma)
//   log p(y | eta, sigma) = -((y - eta) / sigma)^2 / 2 - log(sigma) - log(2 pi) / 2
//
// Data
//   N            number of observations
//   D            number of predictors, without the intercept
//   X            N x D   predictors; scale them alike, since they share one prior
//   y            N       outcomes
//   weights      N       1 for every row is the ordinary regression, 0 is the prior alone
//   alpha_scale  prior sd of the intercept, for example 10 times the sd of y
//   beta_scale   prior scale of each coefficient, sd / sqrt(2), for example 0.1 times the sd of y
//   sigma_scale  prior scale of the residual sd, for example the sd of y
//
// The posterior mean is not sparse; what a Laplace prior shrinks to zero exactly is the mode.
//
// Another prior: change the three lines marked "prior".
data {
  int<lower=0> N;
  int<lower=0> D;
  matrix[N, D] X;
  vector[N] y;
  vector<lower=0>[N] weights;
  real<lower=0> alpha_scale;
  real<lower=0> beta_scale;
  real<lower=0> sigma_scale;
}
parameters {
  real alpha;
  vector[D] beta;
  real<lower=0> sigma;
}
model {
  vector[N] residual = y - (alpha + X * beta);
  target += normal_lpdf(alpha | 0, alpha_scale); // prior
  target += double_exponential_lpdf(beta | 0, beta_scale); // prior
  target += normal_lpdf(sigma | 0, sigma_scale); // prior
  target += -0.5 * dot_product(weights, square(residual / sigma))
            - sum(weights) * (log(sigma) + 0.5 * log(2 * pi()));
}
generated quantities {
  vector[N] log_lik = -0.5 * square((y - (alpha + X * beta)) / sigma)
                      - (log(sigma) + 0.5 * log(2 * pi()));
}
