// Moods of persons, who differ in level and in how much they vary, the two correlated.
data {
  int<lower=1> N;
  int<lower=1> P;
  array[N] int<lower=1, upper=P> person;
  vector[N] stress;
  vector[N] mood;
}
parameters {
  real m0;
  real b;
  real s0;
  vector<lower=0>[2] tau;
  cholesky_factor_corr[2] L;
  matrix[2, P] z;
}
transformed parameters {
  matrix[P, 2] u = (diag_pre_multiply(tau, L) * z)';
}
model {
  m0 ~ normal(0, 1);
  b ~ normal(-0.3, 0.4);
  s0 ~ normal(0, 0.4);
  tau ~ normal(0, 0.5);
  L ~ lkj_corr_cholesky(2);
  to_vector(z) ~ std_normal();
  for (n in 1:N) {
    int p = person[n];
    mood[n] ~ normal(m0 + u[p, 1] + b * stress[n], exp(s0 + u[p, 2]));
  }
}
