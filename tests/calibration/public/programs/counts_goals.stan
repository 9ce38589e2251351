// Goals of home and away teams, by attack and defence.
data {
  int<lower=1> n_games;
  int<lower=2> n_teams;
  array[n_games] int<lower=1, upper=n_teams> home;
  array[n_games] int<lower=1, upper=n_teams> away;
  array[n_games] int<lower=0> goals_home;
  array[n_games] int<lower=0> goals_away;
}
parameters {
  real base;
  real home_advantage;
  vector[n_teams] attack;
  vector[n_teams] defence;
  real<lower=0> sd_attack;
  real<lower=0> sd_defence;
}
model {
  base ~ normal(0, 0.5);
  home_advantage ~ normal(0.3, 0.2);
  sd_attack ~ normal(0, 0.4);
  sd_defence ~ normal(0, 0.4);
  attack ~ normal(0, sd_attack);
  defence ~ normal(0, sd_defence);
  goals_home ~ poisson_log(base + home_advantage + attack[home] - defence[away]);
  goals_away ~ poisson_log(base + attack[away] - defence[home]);
}
