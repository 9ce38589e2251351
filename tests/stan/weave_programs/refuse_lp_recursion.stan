// refuse: 16 the function .sum_lp. changes the target|.sum_lp. changes the target
functions {
  void sum_lp(vector y, int k, real mu);
  void sum_lp(vector y, int k, real mu) {
    y[k] ~ normal(mu, 1);
    if (k > 1) {
      sum_lp(y, k - 1, mu);
    }
  }
}
data { int<lower=1> N; vector[N] y; }
parameters { real mu; }
model {
  mu ~ normal(0, 1);

  sum_lp(y, N, mu);
}
