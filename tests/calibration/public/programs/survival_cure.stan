// A share of patients is cured; the others' times are Weibull.
data {
  int<lower=1> n;
  vector<lower=0>[n] t;
  array[n] int<lower=0, upper=1> d;
  vector[n] stage;
  vector[n] arm;
}
parameters {
  real g0;
  real g_stage;
  real b0;
  real b_arm;
  real<lower=0> k;
}
model {
  g0 ~ normal(-0.3, 0.5);
  g_stage ~ normal(0, 0.5);
  b0 ~ normal(0, 0.4);
  b_arm ~ normal(0.2, 0.3);
  k ~ lognormal(0.2, 0.25);
  for (i in 1:n) {
    real cured = g0 + g_stage * stage[i];
    real scale = exp(b0 + b_arm * arm[i]);
    if (d[i] == 1) {
      target += log1m_inv_logit(cured) + weibull_lpdf(t[i] | k, scale);
    } else {
      target += log_sum_exp(log_inv_logit(cured),
                            log1m_inv_logit(cured) + weibull_lccdf(t[i] | k, scale));
    }
  }
}
