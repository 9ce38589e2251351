// data: {"N": 12, "N_tg": 4, "K": 2, "n_unique_t": 4, "begin_tg": [1, 4, 6, 10], "end_tg": [3, 5, 9, 12], "nobs_tg": [3, 2, 4, 3], "Jtime_tg": [[1, 3, 4, 0], [2, 3, 0, 0], [1, 2, 3, 4], [1, 2, 4, 0]], "prior_only": 0}
// brms, unstr(time, gr = g), as the refusal of refuse_brms_unstructured_times says to write it.
functions {
  real normal_by_group_lpdf(vector y, vector mu, real sigma, matrix chol_cor, data array[] int nobs, array[] int begin, array[] int end, array[,] int Jtime) {
    real lp = 0.0;
    matrix[rows(chol_cor), cols(chol_cor)] L = sigma * chol_cor;
    matrix[rows(chol_cor), cols(chol_cor)] Cov = multiply_lower_tri_self_transpose(L);
    for (i in 1:size(nobs)) {
      array[nobs[i]] int own = Jtime[i, 1:nobs[i]];
      lp += multi_normal_cholesky_lpdf(y[begin[i]:end[i]] | mu[begin[i]:end[i]], cholesky_decompose(Cov[own, own]));
    }
    return lp;
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
  array[N_tg, n_unique_t] int Jtime_tg;
  int prior_only;
}
parameters { vector[K] b; real<lower=0> sigma; cholesky_factor_corr[n_unique_t] Lcortime; }
model {
  if (!prior_only) {
    vector[N] mu = rep_vector(0.0, N);
    mu += X * b;
    target += normal_by_group_lpdf(Y | mu, sigma, Lcortime, nobs_tg, begin_tg, end_tg, Jtime_tg);
  }
  b ~ normal(0, 1); sigma ~ exponential(1); Lcortime ~ lkj_corr_cholesky(1);
}
