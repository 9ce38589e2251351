// data: {"N": 13, "z": "np.where(np.arange(N) == 4, 1.5, 0.0)", "c": "np.where(rng.random(N) < 0.3, rng.integers(1, 4, N), 0)"}
// Only a row with z other than 0 gets as far as the flag, which is computed from all rows.
data {
  int<lower=1> N; vector[N] y; vector[N] x; vector[N] z; array[N] int<lower=0> c;
  array[N] int<lower=1, upper=3> g;
}
transformed data {
  real hit = 0;
  for (n in 1:N) { if (z[n] == 0) continue; hit = 1; }
}
parameters {
  real mu; real nu; real<lower=0> s;
}
model {
  y ~ normal(mu + nu * x, s);
  y ~ normal(hit * nu, 1);
}
