// Surveys in one long column; each site has a first and a last one.
data {
  int<lower=1> n_site;
  int<lower=1> n_survey;
  array[n_site] int<lower=1, upper=n_survey> start_idx;
  array[n_site] int<lower=1, upper=n_survey> end_idx;
  array[n_survey] int<lower=0, upper=1> y;
  array[n_site] int<lower=0, upper=1> any_seen;
  matrix[n_site, 2] X_psi;
  matrix[n_survey, 2] X_p;
}
parameters {
  vector[2] beta_psi;
  vector[2] beta_p;
}
model {
  vector[n_site] logit_psi = X_psi * beta_psi;
  vector[n_survey] logit_p = X_p * beta_p;
  beta_psi ~ normal(0, 0.8);
  beta_p ~ normal(0, 0.6);
  for (i in 1:n_site) {
    real seen = log_inv_logit(logit_psi[i])
      + bernoulli_logit_lpmf(y[start_idx[i]:end_idx[i]] | logit_p[start_idx[i]:end_idx[i]]);
    if (any_seen[i] == 1) {
      target += seen;
    } else {
      target += log_sum_exp(seen, log1m_inv_logit(logit_psi[i]));
    }
  }
}
