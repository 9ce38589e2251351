// Prior and likelihood in one function, which calls another.
functions {
  void rows_lp(vector y, matrix X, vector b, real s) {
    for (n in 1 : rows(y)) {
      y[n] ~ normal(X[n] * b, s);
    }
  }
  void everything_lp(vector y, matrix X, vector b, real s) {
    s ~ exponential(1);
    b ~ normal(0, 2);
    rows_lp(y, X, b, s);
  }
}
data {
  int<lower=1> N;
  int<lower=1> K;
  vector[N] y;
  matrix[N, K] X;
}
parameters {
  vector[K] b;
  real<lower=0> s;
}
model {
  everything_lp(y, X, b, s);
}
