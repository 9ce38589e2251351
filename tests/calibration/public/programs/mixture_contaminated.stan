// A regression with a share of readings that are wrong by a lot.
data {
  int<lower=1> N;
  vector[N] x;
  vector[N] z;
  vector[N] y;
  real<lower=1> inflation;
}
parameters {
  real a;
  real b;
  real c;
  real<lower=0> sigma;
  real<lower=0, upper=1> p_bad;
}
model {
  a ~ normal(0, 1);
  b ~ normal(0, 1);
  c ~ normal(0, 1);
  sigma ~ exponential(1);
  p_bad ~ beta(2, 18);
  for (n in 1:N) {
    real m = a + b * x[n] + c * z[n];
    target += log_sum_exp(log1m(p_bad) + normal_lpdf(y[n] | m, sigma),
                          log(p_bad) + normal_lpdf(y[n] | m, inflation * sigma));
  }
}
