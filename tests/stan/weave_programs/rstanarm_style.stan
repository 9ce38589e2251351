// data: {"N": 14, "K": 2, "has_intercept": 1, "link": 2, "prior_dist": 1}
functions {
  vector linkinv(vector eta, int link) {
    if (link == 1) return eta;
    else if (link == 2) return exp(eta);
    return inv(eta);
  }
}
data { int N; int K; int has_intercept; int link; int prior_dist; matrix[N, K] X; vector<lower=0>[N] y; vector[N] offset_; vector<lower=0>[K] prior_scale; }
parameters { array[has_intercept] real gamma; vector[K] z_beta; real<lower=0> aux; }
transformed parameters { vector[K] beta; if (prior_dist == 1) beta = z_beta .* prior_scale; else beta = z_beta; }
model {
  vector[N] eta = X * beta + offset_;
  if (has_intercept == 1) eta += gamma[1];
  { vector[N] mu = linkinv(eta, link); target += gamma_lpdf(y | aux, aux ./ mu); }
  if (prior_dist == 1) target += normal_lpdf(z_beta | 0, 1);
  if (has_intercept == 1) gamma ~ normal(0, 5);
  aux ~ exponential(1);
}
