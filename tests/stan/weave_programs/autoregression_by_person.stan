// data: {"N": 12, "J": 3, "first": [1,0,0,0,1,0,0,1,0,0,0,0], "id": [1,1,1,1,2,2,2,3,3,3,3,3], "before": [0,1,2,3,0,5,6,0,8,9,10,11]}
// Each way to write that a row reads the one before, of the same person.
data {
  int N; int J; array[N] int<lower=0, upper=1> first; array[N] int<lower=1, upper=J> id;
  array[N] int before; matrix[N, 2] X; vector[N] y; array[N] int<lower=0, upper=1> z;
}
parameters {
  real a; vector[2] b; real r; real<lower=0> s; vector[J] u; real<lower=0> tau; vector[J] c;
}
model {
  u ~ normal(0, tau);
  c ~ normal(0, 1);
  for (n in 1:N) {
    real mu = a + X[n] * b + u[id[n]];
    if (!first[n]) mu += r * (y[n - 1] - X[n-1] * b);
    y[n] ~ normal(mu, s);
  }
  for (n in 2:N) {
    if (id[n] == id[n - 1]) z[n] ~ bernoulli_logit(c[id[n - 1]] + z[n - 1]);
  }
  for (n in 1:N) {
    if (before[n] > 0) target += -r ^ 2 * (z[n] - z[before[n]]) ^ 2;
  }
}
