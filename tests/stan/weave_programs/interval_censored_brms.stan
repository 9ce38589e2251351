// data: {"N": 14, "cens": "rng.integers(-1, 3, N)", "Y": "rng.uniform(0.2, 2, N)", "rcens": "Y + rng.uniform(0.2, 1, N)"}
data { int N; vector[N] Y; array[N] int<lower=-1, upper=2> cens; vector[N] rcens; vector[N] x; }
parameters { real Intercept; real b; real<lower=0> sigma; }
model {
  vector[N] mu = rep_vector(0.0, N);
  mu += Intercept + x * b;
  for (n in 1:N) {
    // special treatment of censored data
    if (cens[n] == 0) {
      target += lognormal_lpdf(Y[n] | mu[n], sigma);
    } else if (cens[n] == 1) {
      target += lognormal_lccdf(Y[n] | mu[n], sigma);
    } else if (cens[n] == -1) {
      target += lognormal_lcdf(Y[n] | mu[n], sigma);
    } else if (cens[n] == 2) {
      target += log_diff_exp(lognormal_lcdf(rcens[n] | mu[n], sigma), lognormal_lcdf(Y[n] | mu[n], sigma));
    }
  }
}
