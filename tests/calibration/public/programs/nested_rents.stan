// Rents of flats: towns differ in level, which follows their wages, and in what a balcony adds.
data {
  int<lower=1> flats;
  int<lower=1> towns;
  array[flats] int<lower=1, upper=towns> town;
  vector[towns] wage;
  vector[flats] balcony;
  vector[flats] log_rent;
}
parameters {
  vector[towns] z_level;
  vector[towns] z_add;
  real level_0;
  real level_wage;
  real add_0;
  real<lower=0> s_level;
  real<lower=0> s_add;
  real<lower=0> s_flat;
}
transformed parameters {
  vector[towns] level = level_0 + level_wage * wage + s_level * z_level;
  vector[towns] add = add_0 + s_add * z_add;
}
model {
  z_level ~ std_normal();
  z_add ~ std_normal();
  level_0 ~ normal(1, 0.5);
  level_wage ~ normal(0.5, 0.4);
  add_0 ~ normal(-0.5, 0.4);
  s_level ~ normal(0, 0.5);
  s_add ~ normal(0, 0.5);
  s_flat ~ normal(0, 1);
  for (f in 1:flats) {
    log_rent[f] ~ normal(level[town[f]] + add[town[f]] * balcony[f], s_flat);
  }
}
