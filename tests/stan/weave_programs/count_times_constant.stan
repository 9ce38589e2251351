// The normal density written out: N copies of the normalising constant are one for each row.
data {
  int<lower=1> N;
  int<lower=1> K;
  matrix[N, K] X;
  vector[N] y;
}
parameters {
  vector[K] b;
  real<lower=0> s;
  real<lower=0> t;
}
model {
  vector[N] e = y - X * b;
  b ~ normal(0, 2);
  s ~ exponential(1);
  t ~ exponential(1);
  target += -0.5 * N * log(2 * pi() * s ^ 2) - 0.5 * dot_self(e) / s ^ 2;
  target += -(N / 2.0) * log(t) + (log(s) - 2 * log1p(t)) * N / 3 - N * (2 * K) * log1p(s) / 7;
  target += -0.5 * (N * log(2 * pi()) + 2 * N * log(t) + sum(square(e)) / square(t));
}
