// Sparse logistic regression with a Laplace prior, weighted
//
//   y[n] ~ Bernoulli(1 / (1 + exp(-eta[n]))),   eta[n] = alpha + X[n] * beta,   n = 1..N
//   alpha ~ normal(0, alpha_scale)
//   beta  ~ double_exponential(0, beta_scale)
//
//   log density = log prior + sum_n weights[n] * log p(y[n] | alpha, beta)
//   log p(y | eta) = y * eta - log(1 + exp(eta))
//
// Data
//   N            number of observations
//   D            number of predictors, without the intercept
//   X            N x D   predictors; scale them alike, since they share one prior
//   y            N       outcomes, 0 or 1
//   weights      N       1 for every row is the ordinary regression, 0 is the prior alone
//   alpha_scale  prior sd of the intercept, for example 5
//   beta_scale   prior scale of each coefficient, sd / sqrt(2), for example 0.1
//
// The posterior mean is not sparse; what a Laplace prior shrinks to zero exactly is the mode.
//
// Another prior: change the two lines marked "prior".
data {
  int<lower=0> N;
  int<lower=0> D;
  matrix[N, D] X;
  array[N] int<lower=0, upper=1> y;
  vector<lower=0>[N] weights;
  real<lower=0> alpha_scale;
  real<lower=0> beta_scale;
}
transformed data {
  vector[N] weighted_y = weights .* to_vector(y);
}
parameters {
  real alpha;
  vector[D] beta;
}
model {
  vector[N] eta = alpha + X * beta;
  target += normal_lpdf(alpha | 0, alpha_scale); // prior
  target += double_exponential_lpdf(beta | 0, beta_scale); // prior
  target += dot_product(weighted_y, eta) - dot_product(weights, log1p_exp(eta));
}
generated quantities {
  vector[N] log_lik;
  {
    vector[N] eta = alpha + X * beta;
    log_lik = to_vector(y) .* eta - log1p_exp(eta);
  }
}
