// data: {"N": 12, "K": 2, "y": "np.resize([0, 1.5, 0.3, 0, 2], N)"}
// The rows of a hurdle's second part are gathered in transformed data, by a loop and by index.
data { int N; int K; vector<lower=0>[N] y; matrix[N, K] X; vector[N] z; }
transformed data {
  int P = 0;
  array[N] int<lower=0, upper=1> zero;
  for (n in 1:N) { zero[n] = y[n] == 0; P += 1 - zero[n]; }
  vector[P] y1;
  matrix[P, K] X1;
  array[P] int J;
  {
    int k = 0;
    for (n in 1:N) if (y[n] > 0) {
      k += 1;
      y1[k] = y[n];
      X1[k] = X[n];
      J[k] = n;
    }
  }
  vector[P] log_z = log1p(square(z[J]));
}
parameters { real a; vector[K] b; real d; real<lower=0> s; }
model {
  a ~ normal(0, 1); b ~ normal(0, 1); d ~ normal(0, 1); s ~ exponential(1);
  zero ~ bernoulli_logit(a + X * b);
  y1 ~ lognormal(X1 * b + d * log_z, s);
  for (k in 1:P) target += normal_lpdf(y1[k] | d + z[J[k]], s);
}
