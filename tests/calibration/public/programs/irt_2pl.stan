// Two-parameter logistic model: discriminations have a distribution of their own.
data {
  int<lower=1> I;
  int<lower=1> J;
  int<lower=1> N;
  array[N] int<lower=1, upper=I> ii;
  array[N] int<lower=1, upper=J> jj;
  array[N] int<lower=0, upper=1> y;
}
parameters {
  vector[I] xi1;
  vector[I] xi2;
  real mu1;
  real mu2;
  real<lower=0> tau1;
  real<lower=0> tau2;
  vector[J] theta;
}
transformed parameters {
  vector[I] alpha = exp(mu1 + tau1 * xi1);
  vector[I] beta = mu2 + tau2 * xi2;
}
model {
  xi1 ~ std_normal();
  xi2 ~ std_normal();
  mu1 ~ normal(0, 0.3);
  mu2 ~ normal(0, 0.7);
  tau1 ~ exponential(4);
  tau2 ~ exponential(1.5);
  theta ~ normal(0, 1);
  y ~ bernoulli_logit(alpha[ii] .* (theta[jj] - beta[ii]));
}
