// Poisson regression with softplus link, weighted
//
//   y[n] ~ Poisson(lambda[n]),   lambda[n] = log(1 + exp(eta[n])),   eta[n] = alpha + X[n] * beta
//   alpha ~ normal(0, alpha_scale)
//   beta  ~ normal(0, beta_scale)
//
//   log density = log prior + sum_n weights[n] * log p(y[n] | alpha, beta)
//   log p(y | lambda) = y * log(lambda) - lambda - log(y!)
//
// The link of the coreset literature: linear for large eta, so that a prior draw cannot
// make the rate explode as it does under the log link. Campbell & Broderick (2018),
// "Bayesian Coreset Construction via Greedy Iterative Geodesic Ascent", section 5, and
// Zhang et al. (2021), "Bayesian Coresets: Revisiting the Nonconvex Optimization
// Perspective", appendix G; both with alpha, beta ~ normal(0, 1).
//
// Data
//   N            number of observations
//   D            number of predictors, without the intercept
//   X            N x D   predictors; centre and scale them for good geometry
//   y            N       counts, 0, 1, 2, ...
//   weights      N       1 for every row is the ordinary regression, 0 is the prior alone
//   alpha_scale  prior sd of the intercept, for example 1
//   beta_scale   prior sd of each coefficient, for example 1
//
// Another prior: change the two lines marked "prior".
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
  vector[N] lambda = log1p_exp(alpha + X * beta);
  target += normal_lpdf(alpha | 0, alpha_scale); // prior
  target += normal_lpdf(beta | 0, beta_scale); // prior
  target += dot_product(weighted_y, log(lambda)) - dot_product(weights, lambda)
            - dot_product(weights, log_factorial);
}
generated quantities {
  vector[N] log_lik;
  {
    vector[N] lambda = log1p_exp(alpha + X * beta);
    log_lik = to_vector(y) .* log(lambda) - lambda - log_factorial;
  }
}
