// refuse: \d+ .
// Which row of a group is the last decides: the value is not the group's own.
data { int N; int J; array[N] int<lower=1, upper=J> g; vector[N] x; vector[N] y; }
parameters { vector[J] u; }
transformed parameters {
  vector[J] top;
  for (n in 1:N) top[g[n]] = u[g[n]] * x[n];
}
model {
  u ~ normal(0, 1);
  for (n in 1:N) y[n] ~ normal(top[g[n]], 1);
}
