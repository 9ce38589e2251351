// Shares of land use: Dirichlet with a softmax of covariates and one precision.
data {
  int<lower=1> N;
  int<lower=2> K;
  int<lower=1> P;
  matrix[N, P] X;
  array[N] vector[K] share;
}
parameters {
  matrix[P, K - 1] B;
  real<lower=0> phi;
}
model {
  to_vector(B) ~ normal(0, 0.4);
  phi ~ gamma(12, 0.4);
  for (n in 1:N) {
    vector[K] eta = append_row(0, (X[n] * B)');
    share[n] ~ dirichlet(phi * softmax(eta));
  }
}
