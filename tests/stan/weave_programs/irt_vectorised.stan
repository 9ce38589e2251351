// data: {"N": 24, "I": 4, "J": 5}
data {
  int I; int J; int N;
  array[N] int<lower=1, upper=I> ii; array[N] int<lower=1, upper=J> jj; array[N] int<lower=0, upper=1> y;
}
parameters { vector<lower=0>[I] alpha; vector[I] beta; vector[J] theta; real mu_beta; real<lower=0> sigma_beta; }
model {
  theta ~ std_normal();
  beta ~ normal(mu_beta, sigma_beta);
  alpha ~ lognormal(0, 0.5);
  y ~ bernoulli_logit(alpha[ii] .* (theta[jj] - beta[ii]));
}
