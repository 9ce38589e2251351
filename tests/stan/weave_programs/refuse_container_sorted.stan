// refuse: 12 .*order of the observations
// A container increment whose entries belong to no row.
data {
  int<lower=1> N;
  vector[N] y;
}
parameters {
  real mu;
}
model {
  vector[N] r = y - mu;
  target += -square(cumulative_sum(r));
}
