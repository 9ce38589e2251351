// data: {"N": 24, "I": 4, "J": 5}
data {
  int<lower=1> I; int<lower=1> J; int<lower=1> N;
  array[N] int<lower=1, upper=I> ii;
  array[N] int<lower=1, upper=J> jj;
  array[N] int<lower=0, upper=1> y;
}
parameters { vector<lower=0>[I] alpha; vector[I] beta; vector[J] theta; }
model {
  vector[N] eta;
  alpha ~ lognormal(0.5, 1);
  beta ~ normal(0, 10);
  theta ~ normal(0, 1);
  for (n in 1:N) eta[n] = alpha[ii[n]] * (theta[jj[n]] - beta[ii[n]]);
  y ~ bernoulli_logit(eta);
}
