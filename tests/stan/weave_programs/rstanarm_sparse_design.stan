// data: {"N": 11, "K": 3, "dense_X": 0, "nnz_X": 19, "u_X": [1, 3, 5, 6, 8, 10, 12, 14, 15, 17, 18, 20], "has_intercept": 0, "link": 1, "family": 6, "t": 0, "q": 0, "num_non_zero": 0, "w": [], "v": [], "u": [], "has_weights": 1}
// rstanarm: effects of groups by a sparse design, and branches that only other data would choose.
data {
  int<lower=0> N;
  int<lower=0> K;
  vector[K] xbar;
  int<lower=0, upper=1> dense_X;
  array[dense_X] matrix[N, K] X;
  int<lower=0> nnz_X;
  vector[nnz_X] w_X;
  array[nnz_X] int<lower=1, upper=K> v_X;
  array[dense_X ? 0 : N + 1] int<lower=1> u_X;
  array[N] int<lower=0> y;
  int<lower=0, upper=1> has_intercept;
  int<lower=1, upper=3> link;
  int<lower=6, upper=8> family;
  int<lower=0> t;
  int<lower=0> q;
  int<lower=0> num_non_zero;
  vector[num_non_zero] w;
  array[num_non_zero] int<lower=1, upper=q> v;
  array[t > 0 ? N + 1 : 0] int<lower=0> u;
  int<lower=0, upper=1> has_weights;
  vector[has_weights ? N : 0] weights;
}
parameters {
  array[has_intercept] real<lower=(link == 1 ? negative_infinity() : 0.0)> gamma;
  vector[K] beta;
  vector[q] z_b;
  vector<lower=0>[t] tau;
  array[family > 6] real<lower=0> aux;
  array[family == 8] vector<lower=0>[N] noise;
}
transformed parameters {
  vector[q] b;
  if (t == 1) b = tau[1] * z_b;
}
model {
  vector[N] eta;
  if (K > 0) {
    if (dense_X) eta = X[1] * beta;
    else eta = csr_matrix_times_vector(N, K, w_X, v_X, u_X, beta);
  } else {
    eta = rep_vector(0.0, N);
  }
  if (t > 0) eta += csr_matrix_times_vector(N, q, w, v, u, b);
  if (has_intercept == 1) {
    if (link == 1) eta += gamma[1];
    else eta += gamma[1] - min(eta);
  } else {
    eta += dot_product(xbar, beta);
  }
  if (family == 8) eta += log(aux[1]) + log(noise[1]);
  if (has_weights == 0) {
    if (family != 7) {
      if (link == 1) target += poisson_log_lpmf(y | eta);
      else target += poisson_lpmf(y | square(eta));
    } else {
      target += neg_binomial_2_log_lpmf(y | eta, aux[1]);
    }
  } else {
    vector[N] ll;
    for (n in 1 : N) ll[n] = poisson_log_lpmf(y[n] | eta[n]);
    target += dot_product(weights, ll);
  }
  target += normal_lpdf(beta | 0, 1) + normal_lpdf(gamma | 0, 2) + normal_lpdf(z_b | 0, 1);
  target += exponential_lpdf(tau | 1);
  if (family > 6) target += exponential_lpdf(aux | 1);
  if (family == 8) target += gamma_lpdf(noise[1] | aux[1], 1);
}
