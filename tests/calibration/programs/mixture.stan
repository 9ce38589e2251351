// Two normal components, ordered.
data {
  int<lower=0> N;
  vector[N] y;
}
parameters {
  ordered[2] mu;
  vector<lower=0>[2] sigma;
  real<lower=0, upper=1> lambda;
}
model {
  mu ~ normal(0, 5);
  sigma ~ lognormal(0, 1);
  lambda ~ beta(2, 2);
  for (n in 1:N)
    target += log_mix(lambda, normal_lpdf(y[n] | mu[1], sigma[1]),
                      normal_lpdf(y[n] | mu[2], sigma[2]));
}
