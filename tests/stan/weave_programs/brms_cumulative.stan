// data: {"N": 14, "nthres": 3, "K": 2, "Y": "rng.integers(1, 5, N)"}
functions {
  real cumulative_logit_lpmf(int y, real mu, real disc, vector thres) {
    int nthres = num_elements(thres);
    if (y == 1) {
      return log_inv_logit(disc * (thres[1] - mu));
    } else if (y == nthres + 1) {
      return log1m_inv_logit(disc * (thres[nthres] - mu));
    } else {
      return log_inv_logit_diff(disc * (thres[y] - mu), disc * (thres[y - 1] - mu));
    }
  }
}
data { int N; array[N] int Y; int nthres; int K; matrix[N, K] X; }
transformed data {
  matrix[N, K] Xc;
  vector[K] means_X;
  for (i in 1:K) { means_X[i] = mean(X[, i]); Xc[, i] = X[, i] - means_X[i]; }
}
parameters { vector[K] b; ordered[nthres] Intercept; }
transformed parameters { real disc = 1; real lprior = 0; lprior += student_t_lpdf(Intercept | 3, 0, 2.5); }
model {
  vector[N] mu = rep_vector(0.0, N);
  mu += Xc * b;
  for (n in 1:N) { target += cumulative_logit_lpmf(Y[n] | mu[n], disc, Intercept); }
  target += lprior;
}
