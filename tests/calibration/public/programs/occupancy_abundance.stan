// Repeated counts in plots: how many animals live there is summed out.
data {
  int<lower=1> plots;
  int<lower=1> visits;
  array[plots, visits] int<lower=0> counted;
  int<lower=1> most;
  vector[plots] cover;
}
parameters {
  real a;
  real b;
  real detect;
}
model {
  a ~ normal(0.8, 0.3);
  b ~ normal(0, 0.25);
  detect ~ normal(0, 0.4);
  for (i in 1:plots) {
    int least = max(counted[i]);
    vector[most - least + 1] lp;
    for (number in least:most) {
      lp[number - least + 1] = poisson_log_lpmf(number | a + b * cover[i])
                               + binomial_logit_lpmf(counted[i] | number, detect);
    }
    target += log_sum_exp(lp);
  }
}
