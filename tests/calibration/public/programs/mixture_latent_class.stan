// Two classes of respondents, who answer six questions with probabilities of their own.
data {
  int<lower=1> N;
  int<lower=1> J;
  array[N, J] int<lower=0, upper=1> y;
  vector[N] female;
}
parameters {
  real g0;
  real g_female;
  vector[J] low;
  vector<lower=0>[J] gap;
}
transformed parameters {
  vector[J] high = low + gap;
}
model {
  g0 ~ normal(0, 0.5);
  g_female ~ normal(0, 0.5);
  low ~ normal(-1, 0.6);
  gap ~ lognormal(0.6, 0.4);
  for (n in 1:N) {
    real in_high = g0 + g_female * female[n];
    target += log_sum_exp(log_inv_logit(in_high) + bernoulli_logit_lpmf(y[n] | high),
                          log1m_inv_logit(in_high) + bernoulli_logit_lpmf(y[n] | low));
  }
}
