// Right and wrong answers in a long table: how able a person is, less how hard a question is.
data {
  int<lower=1> n_answer;
  int<lower=1> n_person;
  int<lower=1> n_question;
  array[n_answer] int<lower=1, upper=n_person> person;
  array[n_answer] int<lower=1, upper=n_question> question;
  array[n_answer] int<lower=0, upper=1> right;
}
parameters {
  real average;
  vector[n_person] able;
  vector[n_question] hard;
  real<lower=0> spread_hard;
}
model {
  average ~ normal(0.5, 0.5);
  able ~ normal(0, 1);
  spread_hard ~ lognormal(-0.3, 0.3);
  hard ~ normal(0, spread_hard);
  for (k in 1:n_answer) {
    real eta = average + able[person[k]] - hard[question[k]];
    right[k] ~ bernoulli_logit(eta);
  }
}
