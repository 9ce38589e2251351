// words known of ten, by hand: years with a[year] = a_bar + z * sigma, as in McElreath
data {
  int<lower=1> N;
  int<lower=1> N_year;
  array[N] int<lower=0, upper=10> words;
  array[N] int<lower=1, upper=N_year> year;
  vector[N] education;
  vector[N] male;
}
parameters {
  vector[N_year] z;
  real a_bar;
  real<lower=0> sigma;
  real b_education;
  real b_male;
}
transformed parameters {
  vector[N_year] a;
  a = a_bar + z * sigma;
}
model {
  vector[N] p;
  sigma ~ exponential(1);
  a_bar ~ normal(0, 1.5);
  z ~ normal(0, 1);
  b_education ~ normal(0, 0.5);
  b_male ~ normal(0, 0.5);
  for (i in 1:N) {
    p[i] = a[year[i]] + b_education * education[i] + b_male * male[i];
    p[i] = inv_logit(p[i]);
  }
  words ~ binomial(10, p);
}
