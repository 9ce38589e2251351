// Ratings 0 to 3 of statements: adjacent categories with steps that all statements share.
functions {
  real rating_lpmf(int rating, real eta, vector steps) {
    vector[size(steps) + 1] height;
    height[1] = 0;
    for (k in 1:size(steps)) {
      height[k + 1] = height[k] + eta - steps[k];
    }
    return height[rating + 1] - log_sum_exp(height);
  }
}
data {
  int<lower=1> N;
  int<lower=1> n_person;
  int<lower=1> n_statement;
  array[N] int<lower=1, upper=n_person> person;
  array[N] int<lower=1, upper=n_statement> statement;
  array[N] int<lower=0, upper=3> rating;
}
parameters {
  vector[n_statement] place;
  vector[3] steps;
  vector[n_person] attitude;
  real<lower=0> sd_attitude;
}
model {
  place ~ normal(0, 1);
  steps ~ normal([-0.8, 0, 0.8]', 0.4);
  sd_attitude ~ gamma(6, 5);
  attitude ~ normal(0, sd_attitude);
  for (n in 1:N) {
    rating[n] ~ rating(attitude[person[n]] - place[statement[n]], steps);
  }
}
