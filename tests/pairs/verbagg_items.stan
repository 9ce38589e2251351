// answers to items, by hand: people and items, both non-centred
data {
  int<lower=1> N;
  int<lower=1> N_person;
  int<lower=1> N_item;
  array[N] int<lower=0, upper=1> y;
  array[N] int<lower=1, upper=N_person> person;
  array[N] int<lower=1, upper=N_item> item;
  vector[N] male;
}
parameters {
  real a_bar;
  real b_male;
  vector[N_person] z_person;
  vector[N_item] z_item;
  real<lower=0> sigma_person;
  real<lower=0> sigma_item;
}
model {
  vector[N] p;
  a_bar ~ normal(0, 1.5);
  b_male ~ normal(0, 1);
  z_person ~ normal(0, 1);
  z_item ~ normal(0, 1);
  sigma_person ~ exponential(1);
  sigma_item ~ exponential(1);
  for (i in 1:N) {
    p[i] = a_bar + z_person[person[i]] * sigma_person + z_item[item[i]] * sigma_item
           + b_male * male[i];
    p[i] = inv_logit(p[i]);
  }
  y ~ binomial(1, p);
}
