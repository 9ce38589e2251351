// refuse: 8 previous observation|last|collected
data { int N; vector[N] y; vector[N] x; }
parameters { real a; real b; }
model {
  real level = 0;
  for (n in 1:N) {
    level = b * level + x[n];
    y[n] ~ normal(level, 1);
  }
}
