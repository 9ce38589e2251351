// data: {"N": 13, "z": "np.where(np.arange(N) == 4, 1.5, 0.0)", "c": "np.where(rng.random(N) < 0.3, rng.integers(1, 4, N), 0)"}
// As many groups and categories as the rows show, also in loops over them.
data {
  int<lower=1> N; vector[N] y; vector[N] x; vector[N] z; array[N] int<lower=0> c;
  array[N] int<lower=1, upper=3> g;
}
transformed data {
  int M = max(c);
}
parameters {
  real mu; real<lower=0> s; vector[max(g)] w; array[max(g)] real v; ordered[M] u;
}
transformed parameters {
  vector[max(g)] e = mu + s * w;
}
model {
  w ~ normal(0, 1); u ~ normal(0, 2);
  for (j in 1:max(g)) v[j] ~ normal(0, 1);
  y ~ normal(e[g] + to_vector(v[g]), s);
  for (n in 1:N) (c[n] + 1) ~ ordered_logistic(mu * x[n], u);
}
