// Ordered logistic regression whose cut points have the prior that shares with a Dirichlet have.
functions {
  real induced_dirichlet_lpdf(vector c, vector alpha, real phi) {
    int K = num_elements(c) + 1;
    vector[K - 1] sigma = inv_logit(phi - c);
    vector[K] p;
    matrix[K, K] J = rep_matrix(0, K, K);
    p[1] = 1 - sigma[1];
    for (k in 2 : (K - 1)) {
      p[k] = sigma[k - 1] - sigma[k];
    }
    p[K] = sigma[K - 1];
    for (k in 1 : K) {
      J[k, 1] = 1;
    }
    for (k in 2 : K) {
      real rho = sigma[k - 1] * (1 - sigma[k - 1]);
      J[k, k] = -rho;
      J[k - 1, k] = rho;
    }
    return dirichlet_lpdf(p | alpha) + log_determinant(J);
  }
}
data {
  int<lower=1> N;
  int<lower=2> K;
  array[N] int<lower=1, upper=K> stars;
  vector[N] delay;
  vector[N] premium;
}
parameters {
  real b_delay;
  real b_premium;
  ordered[K - 1] cuts;
}
model {
  b_delay ~ normal(-0.3, 0.5);
  b_premium ~ normal(0, 0.5);
  cuts ~ induced_dirichlet(rep_vector(3, K), 0);
  stars ~ ordered_logistic(b_delay * delay + b_premium * premium, cuts);
}
