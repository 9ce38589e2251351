// Biomass of species in plots: absent, or present with a gamma amount of a mean by species.
data {
  int<lower=1> N;
  int<lower=1> S_N;
  vector<lower=0>[N] M;
  vector[N] Y;
  array[N] int S;
}
parameters {
  real<lower=0> phi;
  vector[S_N] Za;
  real<lower=0> sigma_a;
  real abar;
  real b1;
  real a_hu;
  real b1_hu;
}
transformed parameters {
  vector[S_N] a;
  a = abar + (Za * sigma_a);
}
model {
  vector[N] mu;
  vector[N] hu;
  phi ~ gamma(5, 3);
  abar ~ normal(0, 1);
  sigma_a ~ exponential(2);
  b1 ~ normal(0, 0.5);
  a_hu ~ normal(-0.5, 0.7);
  b1_hu ~ normal(0, 0.7);
  to_vector(Za) ~ normal(0, 1);
  for (i in 1:N) {
    mu[i] = exp(a[S[i]] + b1 * Y[i]);
    hu[i] = inv_logit(a_hu + b1_hu * Y[i]);
    if (M[i] == 0) {
      target += bernoulli_lpmf(1 | hu[i]);
    } else {
      target += bernoulli_lpmf(0 | hu[i]) + gamma_lpdf(M[i] | phi, phi / mu[i]);
    }
  }
}
