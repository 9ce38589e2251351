// data: {"N": [7, 6], "dense_X": 1, "w_X0": [], "v_X0": [], "u_X0": [], "w_X1": [], "v_X1": [], "u_X1": [], "nnz": [0, 0], "num_non_zero": [10, 8], "u0": [1, 2, 4, 6, 7, 9, 10, 11], "u1": [1, 3, 4, 5, 7, 8, 9], "link": 1, "has_offset": 1, "clogit": 0, "q": 4, "strata": []}
// rstanarm: the rows with y = 0 and those with y = 1, each with a sparse design of group effects.
functions {
  real ll_bern_lp(vector eta0, vector eta1, int link, array[] int N) {
    if (link == 1) {
      target += logistic_lccdf(eta0 | 0, 1);
      target += logistic_lcdf(eta1 | 0, 1);
    } else if (link == 4) {
      target += log1m_exp(eta0);
      target += eta1;
    } else reject("Invalid link");
    return target();
  }
}
data {
  int<lower=1> K;
  array[2] int<lower=0> N;
  int<lower=0, upper=1> dense_X;
  array[dense_X] matrix[N[1], K] X0;
  array[dense_X] matrix[N[2], K] X1;
  array[2] int<lower=0> nnz;
  vector[nnz[1]] w_X0;
  array[nnz[1]] int v_X0;
  array[dense_X ? 0 : N[1] + 1] int u_X0;
  vector[nnz[2]] w_X1;
  array[nnz[2]] int v_X1;
  array[dense_X ? 0 : N[2] + 1] int u_X1;
  int<lower=0, upper=1> clogit;
  array[clogit ? N[1] + N[2] : 0] int strata;
  int<lower=1, upper=5> link;
  int<lower=0, upper=1> has_offset;
  vector[has_offset ? N[1] : 0] offset0;
  vector[has_offset ? N[2] : 0] offset1;
  int<lower=0> q;
  array[2] int<lower=0> num_non_zero;
  vector[num_non_zero[1]] w0;
  vector[num_non_zero[2]] w1;
  array[num_non_zero[1]] int<lower=1, upper=q> v0;
  array[num_non_zero[2]] int<lower=1, upper=q> v1;
  array[N[1] + 1] int<lower=1> u0;
  array[N[2] + 1] int<lower=1> u1;
}
transformed data {
  int NN = N[1] + N[2];
}
parameters {
  real gamma;
  vector[K] beta;
  vector[q] b;
}
model {
  vector[N[1]] eta0;
  vector[N[2]] eta1;
  if (dense_X) {
    eta0 = N[1] > 0 ? X0[1] * beta : rep_vector(0.0, 0);
    eta1 = N[2] > 0 ? X1[1] * beta : rep_vector(0.0, 0);
  } else {
    eta0 = csr_matrix_times_vector(N[1], K, w_X0, v_X0, u_X0, beta);
    eta1 = csr_matrix_times_vector(N[2], K, w_X1, v_X1, u_X1, beta);
  }
  if (has_offset) {
    if (N[1] > 0) eta0 += offset0;
    if (N[2] > 0) eta1 += offset1;
  }
  if (N[1] > 0) eta0 += csr_matrix_times_vector(N[1], q, w0, v0, u0, b);
  if (N[2] > 0) eta1 += csr_matrix_times_vector(N[2], q, w1, v1, u1, b);
  if (link != 4) {
    eta0 += gamma;
    eta1 += gamma;
  } else {
    real shift = fmax(max(eta0), max(eta1));
    eta0 += gamma - shift;
    eta1 += gamma - shift;
  }
  real dummy = ll_bern_lp(eta0, eta1, link, N);
  beta ~ normal(0, 1);
  gamma ~ normal(0, 2 + 0.1 * NN);
  b ~ normal(0, 1);
}
