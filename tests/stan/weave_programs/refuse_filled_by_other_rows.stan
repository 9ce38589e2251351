// refuse: 10 `e\[before\[n\]\]` picks observations by `before\[n\]`
// The element of another row has been written by the loop that reads it.
data { int N; array[N] int before; vector[N] y; }
parameters { real mu; real theta; real<lower=0> sigma; }
model {
  vector[N] e;
  for (n in 1:N) {
    e[n] = y[n] - mu;
    if (before[n] > 0) e[n] -= theta * e[before[n]];
    y[n] ~ normal(e[n], sigma);
  }
}
