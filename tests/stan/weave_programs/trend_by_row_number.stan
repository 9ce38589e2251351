// data: {"N": 12}
data { int N; vector[N] y; }
parameters { real a; real b; }
model {
  for (n in 1:N) y[n] ~ normal(a + b * n, 1);
}
