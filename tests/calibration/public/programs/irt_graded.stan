// Graded responses to items, each with its thresholds and its discrimination.
data {
  int<lower=1> N;
  int<lower=1> P;
  int<lower=1> I;
  int<lower=2> K;
  array[N] int<lower=1, upper=P> person;
  array[N] int<lower=1, upper=I> item;
  array[N] int<lower=1, upper=K> response;
}
parameters {
  vector[P] ability;
  array[I] ordered[K - 1] difficulty;
  vector<lower=0>[I] disc;
}
model {
  ability ~ std_normal();
  disc ~ lognormal(0, 0.3);
  for (i in 1:I) {
    difficulty[i] ~ normal(0, 1.5);
  }
  for (n in 1:N) {
    response[n] ~ ordered_logistic(disc[item[n]] * ability[person[n]], difficulty[item[n]]);
  }
}
