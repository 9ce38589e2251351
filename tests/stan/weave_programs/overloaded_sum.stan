// data: {"N": 13, "z": "np.where(np.arange(N) == 4, 1.5, 0.0)", "c": "np.where(rng.random(N) < 0.3, rng.integers(1, 4, N), 0)"}
// The other overload is no sum over rows.
functions {
  real ll_lpdf(vector y, real m) { return normal_lpdf(y | m, 1); }
  real ll_lpdf(vector y, vector m) { return normal_lpdf(sum(y) | sum(m), 1); }
}
data {
  int<lower=1> N; vector[N] y; vector[N] x; vector[N] z; array[N] int<lower=0> c;
  array[N] int<lower=1, upper=3> g;
}
parameters {
  real mu; real nu; real<lower=0> s;
}
model {
  y ~ ll(mu);
  nu ~ normal(0, 1); s ~ exponential(1);
}
