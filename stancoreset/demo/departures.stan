// Which flights leave more than 15 minutes late? A logistic regression on the season and on
// Saturdays, with crossed effects of carrier, destination, hour and origin; for lme4 and brms
//
//   late ~ saturday + cos_date + sin_date + (1 | carrier) + (1 | dest) + (1 | hour) + (1 | origin)
//
// It is written for all rows, without weights. The effects are centred, which suits groups of
// thousands of rows. Of the three airports' effects the data know the differences alone: these are
// two orthonormal contrasts, as if the effects were normal(0, sd_origin) less their mean.
data {
  int<lower=1> N;
  int<lower=1> K;
  int<lower=1> n_carrier;
  int<lower=1> n_dest;
  int<lower=1> n_hour;
  matrix[N, K] X;
  matrix[N, 2] origin; // orthonormal contrasts of the three airports
  array[N] int<lower=1, upper=n_carrier> carrier;
  array[N] int<lower=1, upper=n_dest> dest;
  array[N] int<lower=1, upper=n_hour> hour;
  array[N] int<lower=0, upper=1> late;
}
parameters {
  real alpha;
  vector[K] beta;
  real<lower=0> sd_carrier;
  real<lower=0> sd_dest;
  real<lower=0> sd_origin;
  real<lower=0> sd_hour;
  vector[n_carrier] r_carrier;
  vector[n_dest] r_dest;
  vector[2] c_origin;
  vector[n_hour] r_hour;
}
model {
  alpha ~ normal(0, 2);
  beta ~ normal(0, 1);
  sd_carrier ~ normal(0, 0.5);
  sd_dest ~ normal(0, 0.5);
  sd_origin ~ normal(0, 0.5);
  sd_hour ~ normal(0, 0.5);
  r_carrier ~ normal(0, sd_carrier);
  r_dest ~ normal(0, sd_dest);
  c_origin ~ normal(0, sd_origin);
  r_hour ~ normal(0, sd_hour);
  late ~ bernoulli_logit_glm(
    X, alpha + origin * c_origin + r_carrier[carrier] + r_dest[dest] + r_hour[hour], beta
  );
}
