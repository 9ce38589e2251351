// Two kinds of customers, each with its own line: components of a regression.
data {
  int<lower=1> N;
  int<lower=2> K;
  vector[N] x;
  vector[N] y;
}
parameters {
  simplex[K] lambda;
  ordered[K] intercept;
  vector[K] slope;
  vector<lower=0>[K] sigma;
}
model {
  lambda ~ dirichlet(rep_vector(6, K));
  intercept ~ normal(0, 2);
  slope ~ normal(0, 1);
  sigma ~ lognormal(-1, 0.3);
  {
    vector[K] log_lambda = log(lambda);
    for (n in 1:N) {
      vector[K] lps = log_lambda;
      for (k in 1:K)
        lps[k] += normal_lpdf(y[n] | intercept[k] + slope[k] * x[n], sigma[k]);
      target += log_sum_exp(lps);
    }
  }
}
