// Log reading times: subjects and items crossed, with correlated effects of a condition.
data {
  int<lower=1> N;
  int<lower=1> N_subj;
  int<lower=1> N_item;
  array[N] int<lower=1, upper=N_subj> subj;
  array[N] int<lower=1, upper=N_item> item;
  vector[N] c_cond;
  vector<lower=0>[N] rt;
}
parameters {
  real alpha;
  real beta;
  real<lower=0> sigma;
  vector<lower=0>[2] tau_u;
  matrix[2, N_subj] z_u;
  cholesky_factor_corr[2] L_u;
  vector<lower=0>[2] tau_w;
  matrix[2, N_item] z_w;
  cholesky_factor_corr[2] L_w;
}
transformed parameters {
  matrix[N_subj, 2] u = (diag_pre_multiply(tau_u, L_u) * z_u)';
  matrix[N_item, 2] w = (diag_pre_multiply(tau_w, L_w) * z_w)';
}
model {
  target += normal_lpdf(alpha | 6, 0.5);
  target += normal_lpdf(beta | 0, 0.2);
  target += normal_lpdf(sigma | 0, 0.5) - normal_lccdf(0 | 0, 0.5);
  target += normal_lpdf(tau_u | 0, 0.3) - 2 * normal_lccdf(0 | 0, 0.3);
  target += normal_lpdf(tau_w | 0, 0.3) - 2 * normal_lccdf(0 | 0, 0.3);
  target += lkj_corr_cholesky_lpdf(L_u | 2);
  target += lkj_corr_cholesky_lpdf(L_w | 2);
  target += std_normal_lpdf(to_vector(z_u));
  target += std_normal_lpdf(to_vector(z_w));
  target += lognormal_lpdf(rt | alpha + u[subj, 1] + w[item, 1]
                                + c_cond .* (beta + u[subj, 2] + w[item, 2]), sigma);
}
