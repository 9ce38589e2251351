// Products chosen by people whose part worths differ and go together.
data {
  int<lower=1> tasks;
  int<lower=1> people;
  int<lower=2> products;
  int<lower=1> D;
  array[tasks] int<lower=1, upper=people> who;
  array[tasks] int<lower=1, upper=products> chosen;
  array[tasks] matrix[products, D] attributes;
}
parameters {
  vector[D] mean_worth;
  vector<lower=0>[D] sd_worth;
  cholesky_factor_corr[D] L_worth;
  matrix[D, people] z;
}
transformed parameters {
  matrix[D, people] worth = diag_pre_multiply(sd_worth, L_worth) * z;
}
model {
  mean_worth ~ normal(0, 0.7);
  sd_worth ~ normal(0, 0.5);
  L_worth ~ lkj_corr_cholesky(3);
  to_vector(z) ~ std_normal();
  for (t in 1:tasks) {
    vector[products] utility = attributes[t] * (mean_worth + col(worth, who[t]));
    target += categorical_logit_lpmf(chosen[t] | utility);
  }
}
