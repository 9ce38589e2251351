// target += a vector, an array, a matrix or a row of one adds all entries.
data {
  int<lower=1> N;
  int<lower=1> K;
  vector[N] y;
  matrix[N, K] Z;
}
parameters {
  real mu;
  vector[K] m;
  real<lower=0> s;
}
model {
  vector[N] ll = -0.5 * square((y - mu) / s) - log(s);
  array[N] real la;
  matrix[N, K] lm;
  for (n in 1:N) {
    la[n] = cauchy_lpdf(y[n] | mu, 2);
    for (k in 1:K) lm[n, k] = normal_lpdf(Z[n, k] | m[k], s);
  }
  target += [normal_lpdf(mu | 0, 1), normal_lpdf(s | 0, 1)];
  target += ll;
  target += la;
  target += -0.5 * ll + log(s);
  target += lm;
  for (n in 1:N) target += 0.1 * lm[n];
}
