// Ratings 0, 1, 2, 3: partial credit with common steps (a rating scale).
functions {
  real rsm(int y, real theta, real beta, vector kappa) {
    vector[rows(kappa) + 1] unsummed;
    vector[rows(kappa) + 1] probs;
    unsummed = append_row(rep_vector(0, 1), theta - beta - kappa);
    probs = softmax(cumulative_sum(unsummed));
    return categorical_lpmf(y + 1 | probs);
  }
}
data {
  int<lower=1> I;
  int<lower=1> J;
  int<lower=1> N;
  array[N] int<lower=1, upper=I> ii;
  array[N] int<lower=1, upper=J> jj;
  array[N] int<lower=0> y;
}
transformed data {
  int m = 3;
}
parameters {
  vector[I] beta;
  vector[m] kappa;
  vector[J] theta;
  real<lower=0> sigma;
}
model {
  beta ~ normal(0, 1);
  kappa ~ normal([-0.8, 0, 0.8]', 0.4);
  theta ~ normal(0, sigma);
  sigma ~ gamma(6, 5);
  for (n in 1:N)
    target += rsm(y[n], theta[jj[n]], beta[ii[n]], kappa);
}
