// Deaths among animals of a cage, by log dose, in batches.
data {
  int<lower=1> N;
  int<lower=1> B;
  array[N] int<lower=0> deaths;
  array[N] int<lower=1> animals;
  vector[N] log_dose;
  array[N] int<lower=1, upper=B> batch;
}
parameters {
  real<lower=0> slope;
  real ld50;
  vector[B] batch_shift;
  real<lower=0> sigma_batch;
}
model {
  slope ~ lognormal(0.5, 0.3);
  ld50 ~ normal(0, 0.7);
  sigma_batch ~ normal(0, 0.4);
  batch_shift ~ normal(0, sigma_batch);
  deaths ~ binomial_logit(animals, slope * (log_dose - ld50 - batch_shift[batch]));
}
