// data: {"N": 13, "z": "np.where(np.arange(N) == 4, 1.5, 0.0)", "c": "np.where(rng.random(N) < 0.3, rng.integers(1, 4, N), 0)"}
// Each pass writes h from its end down to the first.
data {
  int<lower=1> N; vector[N] y; vector[N] x; vector[N] z; array[N] int<lower=0> c;
  array[N] int<lower=1, upper=3> g;
}
parameters {
  real mu; real nu; real<lower=0> s;
}
model {
  vector[3] h = [mu, nu, 0]';
  for (n in 1:N) { h[3] = x[n]; for (k in 1:2) h[3 - k] = h[3 - k + 1] * nu; y[n] ~ normal(h[1], s); }
}
