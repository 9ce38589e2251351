// Sales of shops with an intercept and a slope of their own, written by hand in natural units.
data {
  int<lower=1> N;
  int<lower=1> S;
  int<lower=1> K;
  array[N] int<lower=1, upper=S> shop;
  matrix[N, K] x;
  vector[N] sales;
}
parameters {
  vector[K] m;
  matrix[S, K] b;
  vector<lower=0>[K] tau;
  real<lower=0> sigma;
}
model {
  m[1] ~ student_t(3, 5000, 50);
  m[2:K] ~ normal(0, 20);
  tau ~ student_t(3, 0, 30);
  sigma ~ student_t(3, 0, 30);
  for (k in 1:K) {
    col(b, k) ~ normal(m[k], tau[k]);
  }
  sales ~ student_t(4, rows_dot_product(b[shop], x), sigma);
}
