// Weights whose spread is a power of the mean.
data {
  int<lower=1> N;
  vector<lower=0>[N] age;
  vector[N] male;
  vector[N] weight;
}
parameters {
  real<lower=0> a;
  real<lower=0> k;
  real b_male;
  real<lower=0> s;
  real delta;
}
transformed parameters {
  vector<lower=0>[N] mean_weight = (a + exp(b_male) * male) .* pow(age, k);
}
model {
  a ~ gamma(16, 4);
  k ~ gamma(10, 20);
  b_male ~ normal(-0.5, 0.4);
  s ~ gamma(4, 20);
  delta ~ normal(0.8, 0.3);
  weight ~ normal(mean_weight, s * pow(mean_weight, delta));
}
