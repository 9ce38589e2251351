// refuse: \d+ each of `N` and `C` can count the observations
// The first term has rows of both, the second those of one.
data { int N; int C; vector[N] x; vector[C] z; }
parameters { real a; }
model {
  a ~ normal(0, 1);
  for (c in 1:C) target += normal_lpdf(x | a * z[c], 1) + normal_lpdf(z[c] | a, 1);
}
