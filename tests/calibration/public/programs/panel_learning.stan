// Rats choose an arm of a maze trial after trial: what went before is counted first.
data {
  int<lower=1> rats;
  int<lower=2> trials;
  array[rats, trials] int<lower=0, upper=1> wrong;
}
transformed data {
  matrix[rats, trials] rewards = rep_matrix(0, rats, trials);
  matrix[rats, trials] errors = rep_matrix(0, rats, trials);
  for (r in 1:rats) {
    for (k in 2:trials) {
      errors[r, k] = errors[r, k - 1] + wrong[r, k - 1];
      rewards[r, k] = k - 1 - errors[r, k];
    }
  }
}
parameters {
  real start;
  real by_reward;
  real by_error;
}
model {
  start ~ normal(1, 0.5);
  by_reward ~ normal(-0.25, 0.1);
  by_error ~ normal(-0.1, 0.1);
  for (r in 1:rats) {
    wrong[r] ~ bernoulli_logit(start + by_reward * rewards[r] + by_error * errors[r]);
  }
}
