// refuse: 8 `e` has elements of single observations from before
// The second row reads what the first has written.
data { int N; vector[N] y; }
parameters { real mu; real theta; real<lower=0> sigma; }
model {
  vector[N] e; e[1] = theta;
  for (n in 1:N) e[n] = y[n] - mu - theta * e[1];
  y ~ normal(mu + e, sigma);
}
