// Log-logistic times of which is known between which visits they lie.
functions {
  real loglogistic_lcdf(real t, real mu, real k) {
    return log_inv_logit(k * (log(t) - mu));
  }
  real loglogistic_lccdf(real t, real mu, real k) {
    return log1m_inv_logit(k * (log(t) - mu));
  }
}
data {
  int<lower=1> N;
  int<lower=1> C;
  vector<lower=0>[N] after;
  vector<lower=0>[N] before;
  array[N] int<lower=0, upper=2> seen; // 0: not yet, 1: at the first visit, 2: between visits
  vector[N] dose;
  array[N] int<lower=1, upper=C> clinic;
}
parameters {
  real mu0;
  real b_dose;
  real<lower=0> k;
  real<lower=0> sd_clinic;
  vector[C] z_clinic;
}
model {
  mu0 ~ normal(0.5, 0.5);
  b_dose ~ normal(0, 0.3);
  k ~ lognormal(0.6, 0.25);
  sd_clinic ~ normal(0, 0.4);
  z_clinic ~ std_normal();
  for (n in 1:N) {
    real mu = mu0 + b_dose * dose[n] + sd_clinic * z_clinic[clinic[n]];
    if (seen[n] == 0) {
      target += loglogistic_lccdf(after[n] | mu, k);
    } else if (seen[n] == 1) {
      target += loglogistic_lcdf(before[n] | mu, k);
    } else {
      target += log_diff_exp(loglogistic_lcdf(before[n] | mu, k),
                             loglogistic_lcdf(after[n] | mu, k));
    }
  }
}
