// refuse: 64 .*takes groups with the same times together.*one loop over the groups
// brms, unstr(time, gr = g), where groups lack different times: its function takes groups of equal times together.
functions {
  int is_equal(array[] int a, array[] int b) {
    int n_a = size(a);
    if (n_a != size(b)) return 0;
    for (i in 1:n_a) if (a[i] != b[i]) return 0;
    return 1;
  }
  vector stack(vector x, int n, array[] int stack, array[] int begin, array[] int end) {
    int S = sum(stack);
    vector[n * S] out;
    int j = 1;
    for (i in 1:size(stack)) {
      if (stack[i] == 1) {
        out[(n * (j - 1) + 1):(n * j)] = x[begin[i]:end[i]];
        j += 1;
      }
    }
    return out;
  }
  real normal_time_hom_flex_lpdf(vector y, vector mu, real sigma, matrix chol_cor, data array[] int nobs, array[] int begin, array[] int end, array[,] int Jtime) {
    real lp = 0.0;
    int I = size(nobs);
    array[I] int has_lp = rep_array(0, I);
    int i = 1;
    matrix[rows(chol_cor), cols(chol_cor)] L = sigma * chol_cor;
    matrix[rows(chol_cor), cols(chol_cor)] Cov = multiply_lower_tri_self_transpose(L);
    while (sum(has_lp) != I) {
      array[nobs[i]] int iobs = Jtime[i, 1:nobs[i]];
      array[I - i + 1] int lp_terms = rep_array(0, I - i + 1);
      has_lp[i] = 1;
      lp_terms[1] = 1;
      for (j in (i + 1):I) {
        if (has_lp[j] == 0 && is_equal(Jtime[j], Jtime[i]) == 1) {
          has_lp[j] = 1;
          lp_terms[j - i + 1] = 1;
        }
      }
      lp += multi_normal_cholesky_lpdf(stack(y, nobs[i], lp_terms, begin[i:I], end[i:I]) | stack(mu, nobs[i], lp_terms, begin[i:I], end[i:I]), cholesky_decompose(Cov[iobs, iobs]));
      while (sum(has_lp) != I && has_lp[i] == 1) i += 1;
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
    target += normal_time_hom_flex_lpdf(Y | mu, sigma, Lcortime, nobs_tg, begin_tg, end_tg, Jtime_tg);
  }
  b ~ normal(0, 1); sigma ~ exponential(1); Lcortime ~ lkj_corr_cholesky(1);
}
