// logistic regression as rstanarm writes it: centred predictors, standardised coefficients
data {
  int<lower=0> N;                // number of observations
  int<lower=0> K;                // number of predictors
  matrix[N, K] X;                // centered predictor matrix
  vector[K] xbar;                // predictor means
  array[N] int<lower=0, upper=1> y;
  vector[K] prior_mean;
  vector<lower=0>[K] prior_scale;
  real prior_mean_for_intercept;
  real<lower=0> prior_scale_for_intercept;
  int<lower=0, upper=1> prior_PD;
}
parameters {
  array[1] real gamma;           // intercept of the centered predictors
  vector[K] z_beta;
}
transformed parameters {
  vector[K] beta;
  beta = z_beta .* prior_scale + prior_mean;
}
model {
  if (prior_PD == 0) {
    vector[N] eta = X * beta + gamma[1];
    target += bernoulli_logit_lpmf(y | eta);
  }
  // log-priors for coefficients
  target += normal_lpdf(z_beta | 0, 1);
  target += normal_lpdf(gamma | prior_mean_for_intercept, prior_scale_for_intercept);
}
generated quantities {
  real alpha = gamma[1] - dot_product(xbar, beta);
}
