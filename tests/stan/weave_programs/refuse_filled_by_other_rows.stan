// refuse: 9 `e\[before\[n\]\]` picks observations by `before\[n\]`
// The element of another row has been written by the loop that reads it, from the first on.
data { int N; array[N] int before; vector[N] y; }
parameters { real mu; real theta; real<lower=0> sigma; vector[2] first; }
model {
  vector[N] e;
  e[1:2] = first;
  for (n in 1:N) e[n] = y[n] - mu - theta * e[before[n]];
  y ~ normal(mu + e, sigma);
}
