// Annotators label items; each has a confusion matrix, the true label is summed out.
data {
  int<lower=1> I;
  int<lower=1> J;
  int<lower=2> K;
  array[I, J] int<lower=1, upper=K> y;
  matrix<lower=0>[K, K] beta;
  vector<lower=0>[K] alpha;
}
parameters {
  simplex[K] pi;
  array[J, K] simplex[K] theta;
}
model {
  pi ~ dirichlet(alpha);
  for (j in 1:J)
    for (k in 1:K)
      theta[j, k] ~ dirichlet(beta[k]');
  for (i in 1:I) {
    vector[K] log_q = log(pi);
    for (j in 1:J)
      for (k in 1:K)
        log_q[k] += log(theta[j, k, y[i, j]]);
    target += log_sum_exp(log_q);
  }
}
