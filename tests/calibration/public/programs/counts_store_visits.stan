// Daily visits of stores: a Poisson rate per hour that a store is open.
data {
  int<lower=1> N;
  int<lower=1> N_store;
  array[N] int<lower=1, upper=N_store> store;
  vector<lower=0>[N] hours;
  vector[N] price;
  vector[N] promo;
  array[N] int<lower=0> visits;
}
transformed data {
  vector[N] log_hours = log(hours);
}
parameters {
  real alpha;
  real beta_price;
  real beta_promo;
  real<lower=0> tau;
  vector[N_store] z;
}
transformed parameters {
  vector[N_store] a = alpha + tau * z;
}
model {
  alpha ~ normal(0.5, 0.5);
  beta_price ~ normal(0, 0.3);
  beta_promo ~ normal(0, 0.3);
  tau ~ normal(0, 0.5);
  z ~ std_normal();
  for (i in 1:N) {
    visits[i] ~ poisson_log(log_hours[i] + a[store[i]] + beta_price * price[i]
                            + beta_promo * promo[i]);
  }
}
generated quantities {
  vector[N_store] rate = exp(a);
}
