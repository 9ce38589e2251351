// log weights of rodents, by hand: species with mean and spread by sex, plots
data {
  int<lower=1> N;
  int<lower=1> S;
  int<lower=1> P;
  vector[N] log_weight;
  vector[N] male;
  array[N] int<lower=1, upper=S> species;
  array[N] int<lower=1, upper=P> plot;
}
parameters {
  real a_bar;
  real b_bar;
  vector<lower=0>[2] tau;
  real<lower=0> tau_plot;
  matrix[2, S] z;
  cholesky_factor_corr[2] L_Omega;
  vector[P] z_plot;
  real<lower=0> sigma;
}
transformed parameters {
  matrix[S, 2] v = (diag_pre_multiply(tau, L_Omega) * z)';
  vector[P] plot_effect = tau_plot * z_plot;
}
model {
  a_bar ~ normal(3, 1);
  b_bar ~ normal(0, 0.5);
  tau ~ normal(0, 1);
  tau_plot ~ normal(0, 0.5);
  to_vector(z) ~ std_normal();
  z_plot ~ std_normal();
  L_Omega ~ lkj_corr_cholesky(2);
  sigma ~ exponential(1);
  log_weight ~ normal(a_bar + v[species, 1] + (b_bar + v[species, 2]) .* male
                      + plot_effect[plot], sigma);
}
