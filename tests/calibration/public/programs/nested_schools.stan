// Scores of pupils in classes in schools, each level centred on the one above.
data {
  int<lower=1> N;
  int<lower=1> C;
  int<lower=1> S;
  array[N] int<lower=1, upper=C> class_of;
  array[C] int<lower=1, upper=S> school_of;
  vector[N] prior_score;
  vector[N] score;
}
parameters {
  real mu;
  real beta;
  vector[S] school;
  vector[C] class_mean;
  real<lower=0> sd_school;
  real<lower=0> sd_class;
  real<lower=0> sd_pupil;
}
model {
  mu ~ normal(0, 1);
  beta ~ normal(0.5, 0.3);
  sd_school ~ gamma(3, 6);
  sd_class ~ gamma(3, 6);
  sd_pupil ~ gamma(4, 4);
  school ~ normal(mu, sd_school);
  class_mean ~ normal(school[school_of], sd_class);
  score ~ normal(class_mean[class_of] + beta * prior_score, sd_pupil);
}
