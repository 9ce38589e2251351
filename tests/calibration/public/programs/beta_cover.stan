// Cover of plants: mean and precision both depend on the plot.
data {
  int<lower=1> n;
  int<lower=1> p;
  int<lower=1> q;
  vector<lower=0, upper=1>[n] cover;
  matrix[n, p] X;
  matrix[n, q] W;
}
parameters {
  vector[p] betas;
  vector[q] gammas;
}
model {
  vector[n] theta = inv_logit(X * betas);
  vector[n] zeta = exp(3.5 + W * gammas);
  betas ~ normal(0, 0.3);
  gammas ~ normal(0, 0.25);
  for (i in 1:n)
    cover[i] ~ beta_proportion(theta[i], zeta[i]);
}
