// data: {"N": 20, "J": 4, "K": 2}
data { int N; int J; int K; array[N] int<lower=1, upper=J> jj; matrix[N, K] x; array[N] int<lower=0, upper=1> y; }
parameters { array[J] vector[K] beta; vector[K] mu; corr_matrix[K] Omega; vector<lower=0>[K] tau; }
model {
  tau ~ cauchy(0, 2.5);
  Omega ~ lkj_corr(2);
  mu ~ normal(0, 5);
  beta ~ multi_normal(mu, quad_form_diag(Omega, tau));
  for (n in 1:N) y[n] ~ bernoulli_logit(x[n] * beta[jj[n]]);
}
