// A test whose questions differ in slope and in location; both have distributions of their own.
data {
  int<lower=1> N;
  int<lower=1> n_person;
  int<lower=1> n_question;
  array[N] int<lower=1, upper=n_question> q;
  array[N] int<lower=1, upper=n_person> p;
  array[N] int<lower=0, upper=1> correct;
}
parameters {
  real m_slope;
  real m_place;
  real<lower=0> s_slope;
  real<lower=0> s_place;
  vector[n_question] z_slope;
  vector[n_question] z_place;
  vector[n_person] skill;
}
model {
  vector[n_question] slope = exp(m_slope + s_slope * z_slope);
  vector[n_question] place = m_place + s_place * z_place;
  m_slope ~ normal(0, 0.3);
  m_place ~ normal(0, 0.7);
  s_slope ~ exponential(4);
  s_place ~ exponential(1.5);
  z_slope ~ std_normal();
  z_place ~ std_normal();
  skill ~ std_normal();
  correct ~ bernoulli_logit(slope[q] .* (skill[p] - place[q]));
}
