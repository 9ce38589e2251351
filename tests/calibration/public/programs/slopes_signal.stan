// Old or new? Sensitivity and criterion of each subject, correlated.
data {
  int<lower=1> N;
  int<lower=1> S;
  array[N] int<lower=1, upper=S> subj;
  array[N] int<lower=0, upper=1> is_old;
  array[N] int<lower=0, upper=1> says_old;
}
parameters {
  vector[2] mu;
  vector<lower=0>[2] tau;
  cholesky_factor_corr[2] L;
  matrix[2, S] z;
}
transformed parameters {
  matrix[S, 2] u = (diag_pre_multiply(tau, L) * z)';
}
model {
  mu[1] ~ normal(1, 0.5);
  mu[2] ~ normal(0, 0.5);
  tau ~ normal(0, 0.5);
  L ~ lkj_corr_cholesky(2);
  to_vector(z) ~ std_normal();
  for (n in 1:N) {
    real d = mu[1] + u[subj[n], 1];
    real c = mu[2] + u[subj[n], 2];
    says_old[n] ~ bernoulli(Phi(d * (is_old[n] - 0.5) - c));
  }
}
