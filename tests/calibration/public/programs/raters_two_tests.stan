// Two tests without a gold standard, in herds with prevalences of their own.
data {
  int<lower=1> N;
  int<lower=1> H;
  array[N] int<lower=0, upper=1> t1;
  array[N] int<lower=0, upper=1> t2;
  array[N] int<lower=1, upper=H> herd;
}
parameters {
  vector[H] logit_prev;
  real mu_prev;
  real<lower=0> sd_prev;
  vector<lower=0.5, upper=1>[2] sens;
  vector<lower=0.5, upper=1>[2] spec;
}
model {
  mu_prev ~ normal(-0.7, 0.4);
  sd_prev ~ gamma(6, 6);
  logit_prev ~ normal(mu_prev, sd_prev);
  2 * sens - 1 ~ beta(8, 2);
  2 * spec - 1 ~ beta(12, 2);
  for (n in 1:N) {
    real p = inv_logit(logit_prev[herd[n]]);
    real pos = (t1[n] == 1 ? sens[1] : 1 - sens[1]) * (t2[n] == 1 ? sens[2] : 1 - sens[2]);
    real neg = (t1[n] == 1 ? 1 - spec[1] : spec[1]) * (t2[n] == 1 ? 1 - spec[2] : spec[2]);
    target += log(p * pos + (1 - p) * neg);
  }
}
