// refuse: \d+ .*keeps a value of the previous observation.*
// Where c[n] is 0, the inner loop leaves the m of the row before.
data {
  int<lower=1> N; vector[N] y; vector[N] x; vector[N] z; array[N] int<lower=0> c;
  array[N] int<lower=1, upper=3> g;
}
parameters {
  real mu; real nu; real<lower=0> s;
}
model {
  real m = mu;
  for (n in 1:N) { for (k in 1:c[n]) m = x[n] * k; y[n] ~ normal(m, s); }
}
