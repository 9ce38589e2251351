// data: {"N": 11, "K": 2, "y": "np.resize([0, 1.5, 0.3, 0, 2], N)"}
// No array says which rows were taken: the loop that takes them numbers them.
data { int N; int K; vector<lower=0>[N] y; matrix[N, K] X; array[N] int<lower=1, upper=3> g; }
transformed data {
  int P = 0;
  for (n in 1:N) if (y[n] > 0) P += 1;
  vector[P] y1;
  matrix[P, K] X1;
  array[P] int g1;
  {
    int k = 1;
    for (n in 1:N) {
      if (y[n] > 0) {
        y1[k] = y[n];
        X1[k] = X[n];
        g1[k] = g[n];
        k += 1;
      }
    }
  }
}
parameters { real a; vector[K] b; vector[3] u; real<lower=0> s; }
model {
  a ~ normal(0, 1); b ~ normal(0, 1); u ~ normal(0, 1); s ~ exponential(1);
  for (n in 1:N) target += bernoulli_logit_lpmf(y[n] > 0 | a + X[n] * b);
  y1 ~ lognormal(X1 * b + u[g1], s);
}
