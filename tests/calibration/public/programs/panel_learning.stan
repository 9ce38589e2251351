// Dogs learn to avoid shocks: a matrix of trials, with what went before worked out first.
data {
  int<lower=1> n_dogs;
  int<lower=2> n_trials;
  array[n_dogs, n_trials] int<lower=0, upper=1> y;
}
transformed data {
  array[n_dogs, n_trials] int n_avoid;
  array[n_dogs, n_trials] int n_shock;
  for (j in 1:n_dogs) {
    n_avoid[j, 1] = 0;
    n_shock[j, 1] = 0;
    for (t in 2:n_trials) {
      n_avoid[j, t] = n_avoid[j, t - 1] + 1 - y[j, t - 1];
      n_shock[j, t] = n_shock[j, t - 1] + y[j, t - 1];
    }
  }
}
parameters {
  real b1;
  real b2;
  real b3;
}
model {
  b1 ~ normal(1, 0.5);
  b2 ~ normal(-0.25, 0.1);
  b3 ~ normal(-0.1, 0.1);
  for (j in 1:n_dogs) {
    for (t in 1:n_trials) {
      y[j, t] ~ bernoulli_logit(b1 + b2 * n_avoid[j, t] + b3 * n_shock[j, t]);
    }
  }
}
