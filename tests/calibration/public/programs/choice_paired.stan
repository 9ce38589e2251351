// Games between players: Bradley and Terry's model with an advantage of playing at home.
data {
  int<lower=1> K;
  int<lower=1> N;
  array[N] int<lower=1, upper=K> player1;
  array[N] int<lower=1, upper=K> player0;
  array[N] int<lower=0, upper=1> home1;
  array[N] int<lower=0, upper=1> win1;
}
parameters {
  vector[K] skill;
  real<lower=0> sigma;
  real home;
}
model {
  sigma ~ lognormal(-0.3, 0.3);
  skill ~ normal(0, sigma);
  home ~ normal(0.2, 0.3);
  for (n in 1:N) {
    win1[n] ~ bernoulli_logit(skill[player1[n]] - skill[player0[n]] + home * home1[n]);
  }
}
