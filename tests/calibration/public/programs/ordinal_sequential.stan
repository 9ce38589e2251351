// Steps of an education that are taken or not, one after the other: a sequential logit model.
functions {
  real stopping_lpmf(int y, real eta, vector thresholds) {
    int K = num_elements(thresholds);
    real lp = 0;
    int k = 1;
    while (k <= K && k < y) {
      lp += log1m_inv_logit(thresholds[k] - eta);
      k += 1;
    }
    if (y <= K) {
      lp += log_inv_logit(thresholds[y] - eta);
    }
    return lp;
  }
}
data {
  int<lower=1> N;
  int<lower=1> nthres;
  array[N] int<lower=1> level;
  vector[N] income;
  vector[N] urban;
}
parameters {
  vector[nthres] thresholds;
  real b_income;
  real b_urban;
}
model {
  thresholds ~ normal(-0.5, 0.8);
  b_income ~ normal(0, 0.5);
  b_urban ~ normal(0, 0.5);
  for (n in 1:N) {
    target += stopping_lpmf(level[n] | b_income * income[n] + b_urban * urban[n], thresholds);
  }
}
