// A loop that counts rows itself, with the level of each row in a local number.
data {
  int<lower=1> N;
  int<lower=1> J;
  array[N] int<lower=1, upper=J> g;
  vector[N] y;
}
parameters {
  vector[J] a;
  real<lower=0> sigma;
}
model {
  int n = 1;
  a ~ normal(0, 1);
  sigma ~ normal(0, 1);
  while (n <= N) {
    int j = g[n];
    y[n] ~ normal(a[j], sigma);
    n += 1;
  }
}
