// Chess between players of a club: the difference of their strengths, and who has white.
data {
  int<lower=1> games;
  int<lower=2> players;
  array[games, 2] int<lower=1, upper=players> pair;
  vector<lower=0, upper=1>[games] white;
  array[games] int<lower=0, upper=1> first_won;
}
parameters {
  vector[players] strength;
  real<lower=0> spread;
  real for_white;
}
model {
  vector[games] ahead = strength[pair[, 1]] - strength[pair[, 2]];
  spread ~ lognormal(-0.3, 0.3);
  strength ~ normal(0, spread);
  for_white ~ normal(0.2, 0.3);
  first_won ~ bernoulli_logit(ahead + for_white * white);
}
