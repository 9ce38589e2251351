data {
  int<lower=1> N;
  int<lower=1> K;
  vector[N] y;
  matrix[N, K] X;
  array[N] int<lower=0> c;
}
parameters {
  vector[K] b;
  real<lower=0> s;
}
model {
  b ~ std_normal();
  for (n in 1 : dims(y)[1]) {
    y[n] ~ normal(dot_product(row(X .* X - X, n), b), s);
  }
  for (n in 1 : dims(c)[1]) {
    c[n] ~ poisson_log(col(X, 1)[n] * b[dims(X)[2]]);
  }
}
