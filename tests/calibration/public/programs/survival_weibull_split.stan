// Weibull survival: deaths and censored times come in files of their own.
data {
  int<lower=0> Nobs;
  int<lower=0> Ncen;
  int<lower=0> M;
  vector<lower=0>[Nobs] yobs;
  vector<lower=0>[Ncen] ycen;
  matrix[Nobs, M] Xobs;
  matrix[Ncen, M] Xcen;
}
parameters {
  real<lower=0> alpha;
  real mu;
  vector[M] beta;
}
model {
  alpha ~ gamma(6, 5);
  mu ~ normal(1, 0.5);
  beta ~ normal(0, 0.4);
  yobs ~ weibull(alpha, exp(-(mu + Xobs * beta) / alpha));
  target += weibull_lccdf(ycen | alpha, exp(-(mu + Xcen * beta) / alpha));
}
