// refuse: 7 .*constants that it leaves out depend on `a > 0`.*normal_lpdf
// What `~` leaves out of a normal density is not what it leaves out of a Cauchy one.
data { int N; vector[N] x; vector[N] y; }
parameters { real a; real b; real<lower=0> s; }
model {
  if (a > 0) {
    y ~ normal(b * x, s);
  } else {
    y ~ cauchy(b * x, s);
  }
}
