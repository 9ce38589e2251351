// A regression with skew normal errors.
data {
  int<lower=1> N;
  vector[N] x;
  vector[N] w;
  vector[N] y;
}
parameters {
  real a;
  real b;
  real c;
  real<lower=0> omega;
  real alpha;
}
model {
  a ~ normal(0, 1);
  b ~ normal(0, 1);
  c ~ normal(0, 1);
  omega ~ gamma(4, 4);
  alpha ~ normal(3, 0.7);
  y ~ skew_normal(a + b * x + c * w, omega, alpha);
}
