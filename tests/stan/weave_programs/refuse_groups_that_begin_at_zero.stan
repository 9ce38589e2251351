// refuse: \d+ .
// A group without rows keeps its zero, which the prior reads.
data { int N; int J; array[N] int<lower=1, upper=J> g; vector[N] y; }
parameters { vector[J] u; }
transformed parameters {
  vector[J] top = rep_vector(0, J);
  for (n in 1:N) top[g[n]] = exp(u[g[n]]);
}
model {
  top ~ normal(0, 1);
  for (n in 1:N) y[n] ~ normal(top[g[n]], 1);
}
