// refuse: \d+ .
data { int N; vector[N] y; }
parameters { real q; }
model {
  vector[2] st = rep_vector(0, 2);
  for (n in 1:N) { st[1] = st[2] * q; st[2] = y[n]; y[n] ~ normal(st[1], 1); }
}
