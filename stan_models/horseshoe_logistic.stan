// Sparse logistic regression with a regularised horseshoe prior, weighted
//
//   y[n] ~ Bernoulli(1 / (1 + exp(-eta[n]))),   eta[n] = alpha + X[n] * beta,   n = 1..N
//   alpha ~ normal(0, alpha_scale)
//   beta[d] = z[d] * global * local[d] / sqrt(1 + (global * local[d])^2 / (slab_scale^2 * slab))
//   z       ~ normal(0, 1)
//   local   ~ student_t(local_df, 0, 1), local > 0
//   global  ~ student_t(global_df, 0, global_scale), global > 0
//   slab    ~ inv_gamma(slab_df / 2, slab_df / 2), slab > 0
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
//   local_df     degrees of freedom of the local scales; 1 is the horseshoe
//   global_df    degrees of freedom of the global scale, for example 1
//   global_scale prior scale of the global scale; for m coefficients that are not small,
//                2 * m / (D - m) / sqrt(N)
//   slab_scale   scale of coefficients that are not small, for example 2
//   slab_df      degrees of freedom of their prior, for example 4
//
// These are the prior and the parameters of brms' horseshoe(). The densities of scales are not
// renormalised for positive values: a constant, which changes no posterior.
//
// With local_df up to 2 the local scales have no standard deviation, and with slab_df up to 4 the
// slab has none: their tails are too heavy. Summarise them by quantiles, as a fit's certificate
// does, which names them ("judged by quantiles").
//
// Reference: Piironen & Vehtari (2017), "Sparsity information and regularization in the horseshoe
// and other shrinkage priors".
//
// Another prior: change the five lines marked "prior".
data {
  int<lower=0> N;
  int<lower=0> D;
  matrix[N, D] X;
  array[N] int<lower=0, upper=1> y;
  vector<lower=0>[N] weights;
  real<lower=0> alpha_scale;
  real<lower=0> local_df;
  real<lower=0> global_df;
  real<lower=0> global_scale;
  real<lower=0> slab_scale;
  real<lower=0> slab_df;
}
transformed data {
  vector[N] weighted_y = weights .* to_vector(y);
}
parameters {
  real alpha;
  vector[D] z;
  vector<lower=0>[D] local;
  real<lower=0> global;
  real<lower=0> slab;
}
transformed parameters {
  vector[D] width = global * local;
  vector[D] beta = z .* width ./ sqrt(1 + square(width) / (square(slab_scale) * slab));
}
model {
  vector[N] eta = alpha + X * beta;
  target += normal_lpdf(alpha | 0, alpha_scale); // prior
  target += std_normal_lpdf(z); // prior
  target += student_t_lpdf(local | local_df, 0, 1); // prior
  target += student_t_lpdf(global | global_df, 0, global_scale); // prior
  target += inv_gamma_lpdf(slab | 0.5 * slab_df, 0.5 * slab_df); // prior
  target += dot_product(weighted_y, eta) - dot_product(weights, log1p_exp(eta));
}
generated quantities {
  vector[N] log_lik;
  {
    vector[N] eta = alpha + X * beta;
    log_lik = to_vector(y) .* eta - log1p_exp(eta);
  }
}
