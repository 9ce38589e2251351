// refuse: 8 `y\[n - k\]` is read in the loop over `n`
data { int N; int P; vector[N] y; }
parameters { real a; vector[P] b; real<lower=0> s; }
model {
  for (n in (P + 1):N) {
    real mu = a;
    for (k in 1:P) mu += b[k] * y[n - k];
    y[n] ~ normal(mu, s);
  }
}
