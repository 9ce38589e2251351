// data: {"N": 13, "z": "np.where(np.arange(N) == 4, 1.5, 0.0)", "c": "np.where(rng.random(N) < 0.3, rng.integers(1, 4, N), 0)"}
// What is read was written five passes before; it is computed from all rows.
data {
  int<lower=1> N; vector[N] y; vector[N] x; vector[N] z; array[N] int<lower=0> c;
  array[N] int<lower=1, upper=3> g;
}
transformed data {
  real v0 = 0; real v1 = 0; real v2 = 0; real v3 = 0; real v4 = 0; real v5 = 0;
  for (k in 1:7) { v0 = v1; v1 = v2; v2 = v3; v3 = v4; v4 = v5; v5 = sum(z); }
}
parameters {
  real mu; real nu; real<lower=0> s;
}
model {
  y ~ normal(mu + nu * x, s);
  nu ~ normal(v0, 1);
}
