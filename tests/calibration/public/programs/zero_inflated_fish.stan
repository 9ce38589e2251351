// Catches of camping groups, many of which did not fish.
data {
  int<lower=0> N;
  array[N] int<lower=0> count;
  vector[N] persons;
  vector[N] child;
  vector[N] camper;
}
parameters {
  real a_zi;
  real b_zi;
  real a;
  vector[2] b;
}
model {
  a_zi ~ normal(-0.5, 0.7);
  b_zi ~ normal(0, 0.5);
  a ~ normal(0.7, 0.5);
  b ~ normal(0, 0.4);
  for (n in 1:N) {
    real zi = a_zi + b_zi * child[n];
    real lambda = a + b[1] * persons[n] + b[2] * camper[n];
    if (count[n] == 0)
      target += log_sum_exp(bernoulli_logit_lpmf(1 | zi),
                            bernoulli_logit_lpmf(0 | zi) + poisson_log_lpmf(0 | lambda));
    else
      target += bernoulli_logit_lpmf(0 | zi) + poisson_log_lpmf(count[n] | lambda);
  }
}
