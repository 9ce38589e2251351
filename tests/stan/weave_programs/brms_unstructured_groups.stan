// data: {"N": 12, "N_tg": 4, "K": 2, "n_unique_t": 4, "begin_tg": [1, 4, 6, 10], "end_tg": [3, 5, 9, 12], "nobs_tg": [3, 2, 4, 3], "prior_only": 0}
// brms, unstr(time, gr = g): the residuals of a group are correlated, so the groups are the rows.
functions {
  real normal_time_hom_lpdf(vector y, vector mu, real sigma, matrix chol_cor, data array[] int nobs, array[] int begin, array[] int end) {
    int I = size(nobs);
    vector[I] lp;
    matrix[rows(chol_cor), cols(chol_cor)] L = sigma * chol_cor;
    for (i in 1:I) {
      matrix[nobs[i], nobs[i]] L_i = L[1:nobs[i], 1:nobs[i]];
      lp[i] = multi_normal_cholesky_lpdf(y[begin[i]:end[i]] | mu[begin[i]:end[i]], L_i);
    }
    return sum(lp);
  }
}
data {
  int<lower=1> N;
  vector[N] Y;
  int<lower=1> K;
  matrix[N, K] X;
  int<lower=1> N_tg;
  array[N_tg] int<lower=1> begin_tg;
  array[N_tg] int<lower=1> end_tg;
  array[N_tg] int<lower=1> nobs_tg;
  int n_unique_t;
  int prior_only;
}
parameters { vector[K] b; real<lower=0> sigma; cholesky_factor_corr[n_unique_t] Lcortime; }
model {
  if (!prior_only) {
    vector[N] mu = rep_vector(0.0, N);
    mu += X * b;
    target += normal_time_hom_lpdf(Y | mu, sigma, Lcortime, nobs_tg, begin_tg, end_tg);
  }
  b ~ normal(0, 1); sigma ~ exponential(1); Lcortime ~ lkj_corr_cholesky(1);
}
