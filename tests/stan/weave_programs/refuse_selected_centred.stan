// refuse: 6 .y.own.. picks observations by .own.
// The mean of the selected rows is not the mean of all rows.
data { int<lower=1> N; vector[N] x; vector[N] y; array[3] int own; }
parameters { real a; real b; real<lower=0> s; }
model {
  y[own] ~ normal(a + b * (x[own] - mean(x[own])), s);
  [a, b, s] ~ normal(0, 1);
}
