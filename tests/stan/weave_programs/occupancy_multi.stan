// data: {"R": 8, "T": 3, "y": "rng.integers(0, 2, (R, T))"}
// obs: R
data { int R; int T; array[R, T] int<lower=0, upper=1> y; vector[R] X; }
transformed data {
  int occ_obs = 0;
  array[R] int sum_y;
  for (i in 1:R) { sum_y[i] = sum(y[i]); if (sum_y[i]) occ_obs += 1; }
}
parameters { real alpha_occ; real beta_occ; real alpha_p; real beta_p; }
transformed parameters {
  vector[R] logit_psi = alpha_occ + beta_occ * X;
  matrix[R, T] logit_p;
  for (t in 1:T) logit_p[, t] = alpha_p + beta_p * X;
}
model {
  alpha_occ ~ normal(0, 2); beta_occ ~ normal(0, 2);
  for (i in 1:R) {
    if (sum_y[i]) {
      target += bernoulli_logit_lpmf(1 | logit_psi[i]) + bernoulli_logit_lpmf(y[i] | logit_p[i]);
    } else {
      target += log_sum_exp(bernoulli_logit_lpmf(1 | logit_psi[i]) + bernoulli_logit_lpmf(0 | logit_p[i, 1]) + bernoulli_logit_lpmf(0 | logit_p[i, 2]), bernoulli_logit_lpmf(0 | logit_psi[i]));
    }
  }
}
generated quantities { int occ_fs = occ_obs; }
