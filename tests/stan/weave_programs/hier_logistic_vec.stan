// data: {"N": 12, "D": 2, "L": 3}
data { int<lower=1> D; int<lower=0> N; int<lower=1> L; array[N] int<lower=0, upper=1> y; array[N] int<lower=1, upper=L> ll; array[N] row_vector[D] x; }
parameters { array[D] real mu; array[D] real<lower=0> sigma; array[L] vector[D] beta; }
model {
  mu ~ normal(0, 100);
  for (l in 1:L) beta[l] ~ normal(mu, sigma);
  {
    vector[N] x_beta_ll;
    for (n in 1:N) x_beta_ll[n] = x[n] * beta[ll[n]];
    y ~ bernoulli_logit(x_beta_ll);
  }
}
