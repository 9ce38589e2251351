// data: {"N": 9, "J": 3, "g": [1, 2, 3, 1, 1, 2, 3, 3, 2]}
data { int N; int J; array[N] int<lower=1, upper=J> g; vector[N] x; vector[N] y; }
parameters { vector[J] u; vector[J] v; real<lower=0> s; }
transformed parameters {
  vector[J] top;
  for (n in 1:N) top[g[n]] = fmax(u[g[n]], v[g[n]]);
}
model {
  u ~ normal(0, 1); v ~ normal(0, 1); s ~ exponential(1);
  for (n in 1:N) y[n] ~ normal(top[g[n]] * x[n], s);
}
