// Answers of a survey on a scale of five, countries in a probit model.
data {
  int<lower=1> N;
  int<lower=2> K;
  int<lower=1> D;
  int<lower=1> C;
  array[N] int<lower=1, upper=K> y;
  array[N] row_vector[D] x;
  array[N] int<lower=1, upper=C> country;
}
parameters {
  vector[D] beta;
  ordered[K - 1] c;
  vector[C] country_effect;
  real<lower=0> sigma_country;
}
model {
  vector[N] eta;
  beta ~ normal(0, 0.5);
  c ~ normal(0, 1);
  sigma_country ~ gamma(3, 6);
  country_effect ~ normal(0, sigma_country);
  for (n in 1:N) {
    eta[n] = x[n] * beta + country_effect[country[n]];
  }
  y ~ ordered_probit(eta, c);
}
