// Sparse linear regression with a regularised horseshoe prior, weighted
//
//   y[n] ~ normal(eta[n], sigma),   eta[n] = alpha + X[n] * beta,   n = 1..N
//   alpha ~ normal(0, alpha_scale)
//   beta[d] = z[d] * global * local[d] / sqrt(1 + (global * local[d])^2 / (slab_scale^2 * slab))
//   z       ~ normal(0, 1)
//   local   ~ student_t(local_df, 0, 1), local > 0
//   global  ~ student_t(global_df, 0, global_scale), global > 0
//   slab    ~ inv_gamma(slab_df / 2, slab_df / 2), slab > 0
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
//   local_df     degrees of freedom of the local scales; 1 is the horseshoe
//   global_df    degrees of freedom of the global scale, for example 1
//   global_scale prior scale of the global scale; for m coefficients that are not small,
//                m / (D - m) / sqrt(N) times the residual sd
//   slab_scale   scale of coefficients that are not small, for example the sd of y
//   slab_df      degrees of freedom of their prior, for example 4
//   sigma_scale  prior scale of the residual sd, for example the sd of y
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
// Another prior: change the six lines marked "prior".
data {
  int<lower=0> N;
  int<lower=0> D;
  matrix[N, D] X;
  vector[N] y;
  vector<lower=0>[N] weights;
  real<lower=0> alpha_scale;
  real<lower=0> local_df;
  real<lower=0> global_df;
  real<lower=0> global_scale;
  real<lower=0> slab_scale;
  real<lower=0> slab_df;
  real<lower=0> sigma_scale;
}
parameters {
  real alpha;
  vector[D] z;
  vector<lower=0>[D] local;
  real<lower=0> global;
  real<lower=0> slab;
  real<lower=0> sigma;
}
transformed parameters {
  vector[D] width = global * local;
  vector[D] beta = z .* width ./ sqrt(1 + square(width) / (square(slab_scale) * slab));
}
model {
  vector[N] residual = y - (alpha + X * beta);
  target += normal_lpdf(alpha | 0, alpha_scale); // prior
  target += std_normal_lpdf(z); // prior
  target += student_t_lpdf(local | local_df, 0, 1); // prior
  target += student_t_lpdf(global | global_df, 0, global_scale); // prior
  target += inv_gamma_lpdf(slab | 0.5 * slab_df, 0.5 * slab_df); // prior
  target += normal_lpdf(sigma | 0, sigma_scale); // prior
  target += -0.5 * dot_product(weights, square(residual / sigma))
            - sum(weights) * (log(sigma) + 0.5 * log(2 * pi()));
}
generated quantities {
  vector[N] log_lik = -0.5 * square((y - (alpha + X * beta)) / sigma)
                      - (log(sigma) + 0.5 * log(2 * pi()));
}
