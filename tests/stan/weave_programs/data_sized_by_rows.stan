// data: {"N": 13, "z": "np.where(np.arange(N) == 4, 1.5, 0.0)", "c": "np.where(rng.random(N) < 0.3, rng.integers(1, 4, N), 0)"}
// Transformed data of a size that the rows show.
data {
  int<lower=1> N; vector[N] y; vector[N] x; vector[N] z; array[N] int<lower=0> c;
  array[N] int<lower=1, upper=3> g;
}
transformed data {
  vector[max(c) + 1] w = rep_vector(0, max(c) + 1);
  for (n in 1:N) w[c[n] + 1] += 1;
  array[sum(g)] int first;
  { int k = 0; for (n in 1:N) for (j in 1:g[n]) { k += 1; first[k] = n; } }
}
parameters {
  real mu; real nu; real<lower=0> s;
}
model {
  y ~ normal(mu * w[1] + nu * first[1], s);
}
