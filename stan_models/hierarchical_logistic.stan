// Hierarchical logistic regression with varying intercepts (non-centred), weighted
//
//   y[n] ~ Bernoulli(1 / (1 + exp(-eta[n])))
//   eta[n] = alpha + effect[g[n]] + X[n] * beta,   n = 1..N
//   effect[j] = tau * z[j],   z[j] ~ normal(0, 1),   j = 1..J
//   alpha ~ normal(0, alpha_scale)
//   beta  ~ normal(0, beta_scale)
//   tau   ~ normal(0, tau_scale), tau > 0
//
//   log density = log prior + sum_n weights[n] * log p(y[n] | alpha, beta, effect)
//   log p(y | eta) = y * eta - log(1 + exp(eta))
//
// Data
//   N            number of observations
//   D            number of predictors, without the intercept
//   J            number of groups
//   X            N x D   predictors; centre and scale them for good geometry
//   g            N       group of each observation, 1..J
//   y            N       outcomes, 0 or 1
//   weights      N       1 for every row is the ordinary model, 0 is the prior alone
//   alpha_scale  prior sd of the overall intercept, for example 5
//   beta_scale   prior sd of each coefficient, for example 2.5
//   tau_scale    prior scale of the sd between groups, for example 1
//
// Another prior: change the four lines marked "prior".
data {
  int<lower=0> N;
  int<lower=0> D;
  int<lower=1> J;
  matrix[N, D] X;
  array[N] int<lower=1, upper=J> g;
  array[N] int<lower=0, upper=1> y;
  vector<lower=0>[N] weights;
  real<lower=0> alpha_scale;
  real<lower=0> beta_scale;
  real<lower=0> tau_scale;
}
transformed data {
  vector[N] weighted_y = weights .* to_vector(y);
}
parameters {
  real alpha;
  vector[D] beta;
  real<lower=0> tau;
  vector[J] z;
}
transformed parameters {
  vector[J] effect = tau * z;
}
model {
  vector[N] eta = alpha + effect[g] + X * beta;
  target += normal_lpdf(alpha | 0, alpha_scale); // prior
  target += normal_lpdf(beta | 0, beta_scale); // prior
  target += normal_lpdf(tau | 0, tau_scale); // prior
  target += std_normal_lpdf(z); // prior
  target += dot_product(weighted_y, eta) - dot_product(weights, log1p_exp(eta));
}
generated quantities {
  vector[N] log_lik;
  {
    vector[N] eta = alpha + effect[g] + X * beta;
    log_lik = to_vector(y) .* eta - log1p_exp(eta);
  }
}
