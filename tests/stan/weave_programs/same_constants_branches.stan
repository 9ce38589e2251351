// Both branches leave out the same constants: a log 2 pi a row, whatever the parameters say.
data { int N; vector[N] x; vector[N] y; }
parameters { real a; real b; real<lower=0> s; }
model {
  if (a > 0) {
    y ~ normal(b * x, s);
  } else {
    target += normal_lupdf(y | a + b * x, 2 * s);
  }
  a ~ normal(0, 1);
}
