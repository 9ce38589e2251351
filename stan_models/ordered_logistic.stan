// Ordered logistic regression, weighted
//
//   P(y[n] <= k) = 1 / (1 + exp(eta[n] - cut[k])),   eta[n] = X[n] * beta,   n = 1..N
//   beta ~ normal(0, beta_scale)
//   cut  ~ normal(0, cut_scale), cut[1] < cut[2] < ... < cut[K - 1]
//
//   log density = log prior + sum_n weights[n] * log p(y[n] | beta, cut)
//   log p(y | eta, cut) = log(P(y <= k) - P(y <= k - 1)) at k = y
//
// Data
//   N            number of observations
//   D            number of predictors; the cutpoints are intercepts
//   K            number of categories, at least 2
//   X            N x D   predictors; centre and scale them for good geometry
//   y            N       outcomes, 1..K
//   weights      N       1 for every row is ordinary ordered regression, 0 is the prior alone
//   beta_scale   prior sd of each coefficient, for example 2.5
//   cut_scale    prior scale of the cutpoints, for example 5
//
// The prior of the cutpoints is not renormalised for their order: a constant, which changes no
// posterior.
//
// Another prior: change the two lines marked "prior".
data {
  int<lower=0> N;
  int<lower=0> D;
  int<lower=2> K;
  matrix[N, D] X;
  array[N] int<lower=1, upper=K> y;
  vector<lower=0>[N] weights;
  real<lower=0> beta_scale;
  real<lower=0> cut_scale;
}
parameters {
  vector[D] beta;
  ordered[K - 1] cut;
}
model {
  vector[N] eta = X * beta;
  target += normal_lpdf(beta | 0, beta_scale); // prior
  target += normal_lpdf(cut | 0, cut_scale); // prior
  for (n in 1 : N) {
    target += weights[n] * ordered_logistic_lpmf(y[n] | eta[n], cut);
  }
}
generated quantities {
  vector[N] log_lik;
  {
    vector[N] eta = X * beta;
    for (n in 1 : N) {
      log_lik[n] = ordered_logistic_lpmf(y[n] | eta[n], cut);
    }
  }
}
