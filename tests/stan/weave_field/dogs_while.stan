data {
  int<lower=0> n_dogs;
  int<lower=0> n_trials;
  array[n_dogs, n_trials] int<lower=0, upper=1> y;
}
parameters {
  vector<lower=-10, upper=-0.00001>[2] beta;
}
model {
  beta ~ uniform(-10, 0);
  for (j in 1 : n_dogs) {
    int t = 1;
    real av = 0;
    real sh = 0;
    while (t <= n_trials) {
      real p = 0.1 + 0.8 * exp(beta[1] * av + beta[2] * sh - 0.01);
      y[j, t] ~ bernoulli(p);
      av += 1 - y[j, t];
      sh += y[j, t];
      t += 1;
    }
  }
}

