// The same with effects of mean zero and scale one.
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
  matrix[S, K] z;
  vector<lower=0>[K] tau;
  real<lower=0> sigma;
}
transformed parameters {
  matrix[S, K] b;
  for (k in 1:K) {
    b[, k] = m[k] + tau[k] * z[, k];
  }
}
model {
  m[1] ~ student_t(3, 5000, 50);
  m[2:K] ~ normal(0, 20);
  tau ~ student_t(3, 0, 30);
  sigma ~ student_t(3, 0, 30);
  to_vector(z) ~ std_normal();
  sales ~ student_t(4, rows_dot_product(b[shop], x), sigma);
}
