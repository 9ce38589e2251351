// The share of a garden that is paved: none, all, or something between.
data {
  int<lower=1> N;
  vector<lower=0, upper=1>[N] paved;
  vector[N] size_;
}
parameters {
  vector[2] extreme;
  vector[2] all_;
  vector[2] between;
  real log_precision;
}
model {
  real precision = exp(log_precision);
  extreme ~ normal(-0.7, 0.5);
  all_ ~ normal(0, 0.5);
  between ~ normal(0, 0.4);
  log_precision ~ normal(2.5, 0.4);
  for (n in 1:N) {
    int at_end = paved[n] == 0 || paved[n] == 1;
    at_end ~ bernoulli_logit(extreme[1] + extreme[2] * size_[n]);
    if (at_end) {
      target += bernoulli_logit_lpmf(paved[n] == 1 | all_[1] + all_[2] * size_[n]);
    } else {
      paved[n] ~ beta_proportion(inv_logit(between[1] + between[2] * size_[n]), precision);
    }
  }
}
