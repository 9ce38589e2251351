// Seeds that germinate, of those sown, with more variation than binomial.
functions {
  real beta_binomial2_lpmf(int y, real mu, real phi, int T) {
    return beta_binomial_lpmf(y | T, mu * phi, (1 - mu) * phi);
  }
}
data {
  int<lower=1> N;
  int<lower=1> B;
  array[N] int<lower=0> y;
  array[N] int<lower=1> vint1;
  array[N] int<lower=1, upper=B> block;
  vector[N] extract_;
  vector[N] moist;
}
parameters {
  real a;
  vector[2] b;
  real<lower=0> phi;
  real<lower=0> sd_block;
  vector[B] u;
}
model {
  a ~ normal(0, 0.6);
  b ~ normal(0, 0.5);
  phi ~ gamma(5, 0.5);
  sd_block ~ normal(0, 0.5);
  u ~ normal(0, 1);
  for (n in 1:N) {
    target += beta_binomial2_lpmf(y[n] | inv_logit(a + b[1] * extract_[n] + b[2] * moist[n]
                                                   + sd_block * u[block[n]]), phi, vint1[n]);
  }
}
