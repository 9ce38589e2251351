// Stops by police: precincts and ethnic groups are crossed, arrests are the exposure.
data {
  int<lower=0> N;
  int<lower=0> n_precinct;
  int<lower=0> n_eth;
  array[N] int<lower=1, upper=n_precinct> precinct;
  array[N] int<lower=1, upper=n_eth> eth;
  vector[N] offeset;
  array[N] int<lower=0> stops;
}
parameters {
  real mu;
  vector[n_eth] b_eth_raw;
  vector[n_precinct] b_precinct;
  real<lower=0> sigma_eth;
  real<lower=0> sigma_precinct;
  real<lower=0> phi;
}
transformed parameters {
  vector[n_eth] b_eth = sigma_eth * b_eth_raw;
}
model {
  vector[N] lambda;
  for (i in 1:N)
    lambda[i] = offeset[i] + mu + b_eth[eth[i]] + b_precinct[precinct[i]];
  mu ~ normal(0, 1);
  sigma_eth ~ normal(0, 0.5);
  sigma_precinct ~ exponential(2);
  b_eth_raw ~ normal(0, 1);
  b_precinct ~ normal(0, sigma_precinct);
  phi ~ gamma(3, 1);
  stops ~ neg_binomial_2_log(lambda, phi);
}
