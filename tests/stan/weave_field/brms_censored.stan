data {
  int<lower=1> N;
  vector[N] Y;
  array[N] int<lower=-1, upper=2> cens;
  vector[N] rcens;
  int K;
  matrix[N, K] X;
  int prior_only;
}
parameters {
  vector[K] b;
  real<lower=0> shape;
}
model {
  if (!prior_only) {
    vector[N] mu = rep_vector(0.0, N);
    mu += X * b;
    mu = exp(mu);
    for (n in 1 : N) {
      // special treatment of censored data
      if (cens[n] == 0) {
        target += weibull_lpdf(Y[n] | shape, mu[n] / tgamma(1 + 1 / shape));
      } else if (cens[n] == 1) {
        target += weibull_lccdf(Y[n] | shape, mu[n] / tgamma(1 + 1 / shape));
      } else if (cens[n] == -1) {
        target += weibull_lcdf(Y[n] | shape, mu[n] / tgamma(1 + 1 / shape));
      } else if (cens[n] == 2) {
        target += log_diff_exp(weibull_lcdf(rcens[n] | shape, mu[n]
                                                              / tgamma(
                                                              1 + 1 / shape)),
                               weibull_lcdf(Y[n] | shape, mu[n]
                                                          / tgamma(1
                                                                   + 
                                                                   1 / shape)));
      }
    }
  }
  target += normal_lpdf(b | 0, 1);
  target += gamma_lpdf(shape | 2, 1);
}

