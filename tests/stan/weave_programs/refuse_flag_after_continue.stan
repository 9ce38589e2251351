// refuse: \d+ .*holds what the last pass of the loop over observations left in it.*
// Only a row with z other than 0 gets as far as the flag.
data {
  int<lower=1> N; vector[N] y; vector[N] x; vector[N] z; array[N] int<lower=0> c;
  array[N] int<lower=1, upper=3> g;
}
parameters {
  real mu; real nu; real<lower=0> s;
}
model {
  real hit = 0;
  for (n in 1:N) { if (z[n] == 0) continue; hit = 1; }
  nu ~ normal(hit, 1);
  y ~ normal(mu + nu * x, s);
}
