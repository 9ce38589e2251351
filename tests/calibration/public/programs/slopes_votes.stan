// Votes by income: coefficients of each state are jointly normal, centred.
data {
  int<lower=1> N;
  int<lower=1> J;
  int<lower=1> K;
  array[N] int<lower=1, upper=J> state;
  matrix[N, K] x;
  array[N] int<lower=0, upper=1> vote;
}
parameters {
  array[J] vector[K] beta;
  vector[K] gamma;
  corr_matrix[K] Omega;
  vector<lower=0>[K] tau;
}
model {
  tau ~ lognormal(-0.9, 0.4);
  Omega ~ lkj_corr(2);
  gamma ~ normal(0, 0.7);
  beta ~ multi_normal(gamma, quad_form_diag(Omega, tau));
  for (n in 1:N)
    vote[n] ~ bernoulli_logit(x[n] * beta[state[n]]);
}
