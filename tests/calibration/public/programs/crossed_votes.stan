// A poll: age, education, state and region, to be poststratified.
data {
  int<lower=0> N;
  int<lower=0> n_age;
  int<lower=0> n_edu;
  int<lower=0> n_state;
  int<lower=0> n_region;
  array[N] int<lower=1, upper=n_age> age;
  array[N] int<lower=1, upper=n_edu> edu;
  array[N] int<lower=1, upper=n_state> state;
  array[n_state] int<lower=1, upper=n_region> region_of;
  vector[n_state] v_prev;
  vector<lower=0, upper=1>[N] black;
  vector<lower=0, upper=1>[N] female;
  array[N] int<lower=0, upper=1> y;
}
parameters {
  vector[4] beta;
  vector[n_age] z_age;
  vector[n_edu] z_edu;
  vector[n_state] a_state;
  vector[n_region] z_region;
  real<lower=0> sigma_age;
  real<lower=0> sigma_edu;
  real<lower=0> sigma_state;
  real<lower=0> sigma_region;
}
model {
  vector[n_state] state_hat;
  for (j in 1:n_state)
    state_hat[j] = sigma_region * z_region[region_of[j]] + beta[4] * v_prev[j];
  a_state ~ normal(state_hat, sigma_state);
  beta ~ normal(0, 0.7);
  z_age ~ std_normal();
  z_edu ~ std_normal();
  z_region ~ std_normal();
  sigma_age ~ normal(0, 0.4);
  sigma_edu ~ normal(0, 0.4);
  sigma_state ~ normal(0, 0.4);
  sigma_region ~ normal(0, 0.4);
  y ~ bernoulli_logit(beta[1] + beta[2] * black + beta[3] * female + sigma_age * z_age[age]
                      + sigma_edu * z_edu[edu] + a_state[state]);
}
