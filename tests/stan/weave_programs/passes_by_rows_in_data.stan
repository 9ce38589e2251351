// data: {"N": 13, "K": 2, "c": "np.where(rng.random(N) < 0.3, rng.integers(1, 4, N), 0)"}
// How many passes, and whether there is one, depends on all rows; so do sizes.
data {
  int<lower=1> N; int K; vector[N] y; array[N] int<lower=0> c;
}
transformed data {
  real q = 0;
  vector[max(c) + 2] w = rep_vector(0, max(c) + 2);
  for (k in 1:max(c)) q = 2.5;
  for (k in 1:K) w[k] = 1;
}
parameters { real mu; real nu; }
model {
  nu ~ normal(q, 1);
  y ~ normal(mu + w[1], 1);
}
