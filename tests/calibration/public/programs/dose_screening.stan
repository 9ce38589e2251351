// A screen of many compounds: each curve has its bottom and its log IC50.
data {
  int<lower=0> N;
  int<lower=0> M;
  array[N] int<lower=1, upper=M> curve_ind;
  vector[N] log_conc;
  vector[N] y;
}
parameters {
  real<lower=0> top;
  vector[M] bottom;
  vector[M] log_IC50;
  real mu_ic;
  real<lower=0> sd_ic;
  real<lower=0> nH;
  real<lower=0> sigma;
}
model {
  vector[N] mu;
  bottom ~ normal(0.25, 0.1);
  top ~ normal(1, 0.1);
  mu_ic ~ normal(-6, 0.5);
  sd_ic ~ gamma(6, 8);
  log_IC50 ~ normal(mu_ic, sd_ic);
  nH ~ lognormal(0, 0.15);
  sigma ~ exponential(10);
  for (i in 1:N) {
    mu[i] = top + (bottom[curve_ind[i]] - top)
                  / (1 + 10^((log_IC50[curve_ind[i]] - log_conc[i]) * nH));
  }
  y ~ normal(mu, sigma);
}
