functions {
  real joint(vector y, vector x, real a, real s) {
    real lp = normal_lpdf(a | 0, 1);
    lp += normal_lpdf(y | a + x, s);
    lp += exponential_lpdf(s | 1);
    return lp;
  }
}
data {
  int<lower=1> N;
  vector[N] y;
  matrix[N, 2] X;
}
parameters {
  real a;
  real<lower=0> s;
}
model {
  target += joint(y, X[ : , 2], a, s);
}
