// One factor behind five scales: the factor is integrated out.
data {
  int<lower=1> N;
  int<lower=2> P;
  array[N] vector[P] y;
}
parameters {
  vector[P] nu;
  real<lower=0> lambda_1;
  vector[P - 1] lambda_rest;
  vector<lower=0>[P] psi;
}
transformed parameters {
  vector[P] lambda = append_row(lambda_1, lambda_rest);
  cov_matrix[P] Sigma = lambda * lambda' + diag_matrix(square(psi));
}
model {
  nu ~ normal(0, 1);
  lambda_1 ~ gamma(8, 8);
  lambda_rest ~ normal(0.8, 0.3);
  psi ~ gamma(8, 10);
  y ~ multi_normal(nu, Sigma);
}
