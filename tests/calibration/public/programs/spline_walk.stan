// B-splines whose coefficients are a random walk; the basis has a row for each coefficient.
data {
  int num_data;
  int num_basis;
  matrix[num_basis, num_data] B;
  vector[num_data] X;
  vector[num_data] Y;
}
parameters {
  row_vector[num_basis] a_raw;
  real a0;
  real<lower=0> sigma;
  real<lower=0> tau;
}
transformed parameters {
  row_vector[num_basis] a;
  vector[num_data] Y_hat;
  a[1] = a_raw[1];
  for (i in 2:num_basis)
    a[i] = a[i - 1] + a_raw[i] * tau;
  Y_hat = a0 * X + to_vector(a * B);
}
model {
  a_raw ~ normal(0, 1);
  a0 ~ normal(0, 1);
  tau ~ normal(0, 1);
  sigma ~ gamma(4, 8);
  Y ~ normal(Y_hat, sigma);
}
