// Sites that are occupied or not, surveyed T times.
data {
  int<lower=1> R;
  int<lower=1> T;
  array[R, T] int<lower=0, upper=1> y;
  vector[R] X;
  vector[R] forest;
}
transformed data {
  array[R] int<lower=0, upper=T> sum_y;
  for (i in 1:R)
    sum_y[i] = sum(y[i]);
}
parameters {
  real alpha_occ;
  vector[2] beta_occ;
  real alpha_p;
  real beta_p;
}
transformed parameters {
  vector[R] logit_psi = alpha_occ + beta_occ[1] * X + beta_occ[2] * forest;
  vector[R] logit_p = alpha_p + beta_p * X;
}
model {
  alpha_occ ~ normal(0, 0.7);
  beta_occ ~ normal(0, 0.7);
  alpha_p ~ normal(-0.3, 0.5);
  beta_p ~ normal(0, 0.5);
  for (i in 1:R) {
    if (sum_y[i]) {
      1 ~ bernoulli_logit(logit_psi[i]);
      y[i] ~ bernoulli_logit(logit_p[i]);
    } else {
      target += log_sum_exp(bernoulli_logit_lpmf(1 | logit_psi[i])
                            + bernoulli_logit_lpmf(0 | logit_p[i]) * T,
                            bernoulli_logit_lpmf(0 | logit_psi[i]));
    }
  }
}
