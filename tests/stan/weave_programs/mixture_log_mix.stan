// data: {"N": 12}
data { int N; vector[N] y; }
parameters { real<lower=0, upper=1> lambda; ordered[2] mu; vector<lower=0>[2] sigma; }
model {
  sigma ~ normal(0, 2);
  mu ~ normal(0, 2);
  lambda ~ beta(5, 5);
  for (n in 1:N)
    target += log_mix(lambda, normal_lpdf(y[n] | mu[1], sigma[1]), normal_lpdf(y[n] | mu[2], sigma[2]));
}
