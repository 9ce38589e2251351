// Eruptions: two normal components in order.
data {
  int<lower=1> N;
  vector[N] y;
}
parameters {
  ordered[2] mu;
  vector<lower=0>[2] sigma;
  real<lower=0, upper=1> theta;
}
model {
  sigma ~ lognormal(-0.5, 0.3);
  mu[1] ~ normal(-1, 0.5);
  mu[2] ~ normal(1.5, 0.5);
  theta ~ beta(5, 5);
  for (n in 1:N)
    target += log_mix(theta, normal_lpdf(y[n] | mu[1], sigma[1]),
                      normal_lpdf(y[n] | mu[2], sigma[2]));
}
