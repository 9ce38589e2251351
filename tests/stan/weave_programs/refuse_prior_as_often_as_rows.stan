// refuse: 5 part of the observations
data { int N; vector[N] y; }
parameters { real a; }
model {
  for (n in 2:N) a ~ normal(0, 1);
  y ~ normal(a, 1);
}
