// refuse: \d+ each of `N` and `C` can count the observations
// A term for each pair is a term of a row of each of both.
data { int N; int C; vector[N] x; vector[C] z; }
parameters { real a; }
model {
  a ~ normal(0, 1);
  for (n in 1:N) for (c in 1:C) target += normal_lpdf(x[n] - z[c] | a, 1);
}
