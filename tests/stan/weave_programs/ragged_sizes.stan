// data: {"J": 3, "n": [4, 2, 5]}
// Ragged arrays: the number of rows is the sum of the groups' sizes.
data {
  int<lower=1> J;
  array[J] int<lower=0> n;
  vector[sum(n)] y;
  vector[sum(n)] x;
  array[sum(n)] int<lower=1, upper=J> g;
}
parameters { real a; real b; vector[J] u; real<lower=0> s; }
model {
  a ~ normal(0, 2);
  b ~ normal(0, 1);
  u ~ std_normal();
  s ~ exponential(1);
  for (i in 1:sum(n)) y[i] ~ normal(a + b * x[i] + u[g[i]], s);
}
