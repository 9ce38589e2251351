data {
  int<lower=0> N;
  vector[N] y;
  vector[N] x;
}
parameters {
  real a;
  real b;
  real<lower=0> s;
}
model {
  a ~ normal(0, 1);
  b ~ normal(0, 1);
  s ~ exponential(1);
  target += -N * log(s)
            - 0.5 * (y - a - b * x)' * (y - a - b * x) / square(s);
}

