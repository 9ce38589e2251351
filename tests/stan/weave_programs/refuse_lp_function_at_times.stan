// refuse: \d+ .*
// What is evaluated at times only may not be written out.
functions {
  real rows_lp(vector y, real mu) {
    y ~ normal(mu, 1);
    return 0;
  }
}
data { int<lower=1> N; vector[N] y; int use; }
parameters { real mu; }
model {
  mu ~ normal(0, 1);
  target += use ? rows_lp(y, mu) : 0;
}
