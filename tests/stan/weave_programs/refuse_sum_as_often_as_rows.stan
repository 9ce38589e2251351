// refuse: 6 pairs each observation with every other
data { int N; vector[N] y; }
parameters { real a; }
model {
  for (n in 1:N) {
    real m = 0; for (j in 1:N) m += 0.1 * a; y[n] ~ normal(m, 1);
  }
}
