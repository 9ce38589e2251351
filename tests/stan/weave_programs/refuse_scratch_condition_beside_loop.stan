// refuse: 11 previous observation
data { int N; matrix[N, 3] x; array[N] int c; vector[N] y; }
parameters { real a; real b; }
model {
  vector[4] h = rep_vector(0, 4);
  a ~ normal(0, 1);
  b ~ normal(0, 1);
  for (n in 1:N) {
    for (t in 1:3) h[t] = a * x[n, t];
    if (c[n] == 1) h[4] = b * x[n, 1];
    y[n] ~ normal(h[1] + h[4], 1);
  }
}
