// Log wages that are seen of those who work only: two equations with correlated errors.
data {
  int<lower=1> N;
  array[N] int<lower=0, upper=1> works;
  vector[N] wage;
  vector[N] school;
  vector[N] kids;
}
parameters {
  vector[3] gamma;
  vector[2] beta;
  real<lower=0> sigma;
  real<lower=-1, upper=1> rho;
}
model {
  gamma ~ normal(0, 0.5);
  beta ~ normal(0.5, 0.5);
  sigma ~ gamma(6, 8);
  rho ~ normal(0, 0.5);
  for (n in 1:N) {
    real s = gamma[1] + gamma[2] * school[n] + gamma[3] * kids[n];
    if (works[n] == 1) {
      real m = beta[1] + beta[2] * school[n];
      target += normal_lpdf(wage[n] | m, sigma)
                + log(Phi((s + rho * (wage[n] - m) / sigma) / sqrt(1 - rho^2)));
    } else {
      target += log(Phi(-s));
    }
  }
}
