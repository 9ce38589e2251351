// Losses of contracts: a Poisson number of gamma claims, summed over the number up to M.
data {
  int<lower=1> N;
  int<lower=1> M;
  array[N] real<lower=0> Y;
  vector[N] log_exposure;
  matrix[N, 2] X;
}
parameters {
  real omega_0;
  vector[2] omega;
  real<lower=0> phi;
  real<lower=1, upper=2> theta;
}
transformed parameters {
  real<lower=0> alpha = (2 - theta) / (theta - 1);
}
model {
  vector[N] mu = exp(omega_0 + X * omega + log_exposure);
  omega_0 ~ normal(-0.3, 0.3);
  omega ~ normal(0, 0.3);
  phi ~ gamma(10, 10);
  theta - 1 ~ beta(10, 10);
  for (n in 1:N) {
    real lambda = mu[n]^(2 - theta) / (phi * (2 - theta));
    real rate = mu[n]^(1 - theta) / (phi * (theta - 1));
    if (Y[n] == 0) {
      target += -lambda;
    } else {
      vector[M] ps;
      for (m in 1:M)
        ps[m] = poisson_lpmf(m | lambda) + gamma_lpdf(Y[n] | m * alpha, rate);
      target += log_sum_exp(ps);
    }
  }
}
