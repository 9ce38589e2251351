// A loop over the elements of an array, with a local number made of each.
data {
  int<lower=1> N;
  array[N] int<lower=0> y;
  real<lower=0> exposure;
}
parameters {
  real<lower=0> rate;
}
model {
  rate ~ gamma(2, 1);
  for (k in y) {
    int both = 2 * k;
    both ~ poisson(rate * exposure);
  }
}
