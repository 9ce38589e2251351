// refuse: \d+ .*in one case, another number in another.*
// A number that every row would add.
functions {
  real f(vector y, real m) { if (m > 0) return 3; return -0.5 * sum(square(y - m)); }
}
data {
  int<lower=1> N; vector[N] y; vector[N] x; vector[N] z; array[N] int<lower=0> c;
  array[N] int<lower=1, upper=3> g;
}
parameters {
  real mu; real nu; real<lower=0> s;
}
model {
  target += f(y, mu);
}
