// refuse: 5 number of a row
data { int N; vector[N] y; }
parameters { real a; real b; }
model {
  for (n in 1:N) y[n] ~ normal(a + b * n, 1);
}
