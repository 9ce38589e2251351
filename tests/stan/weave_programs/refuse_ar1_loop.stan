// refuse: 5 .*next to it, as in a time series
data { int N; vector[N] y; }
parameters { real alpha; real beta; real<lower=0> sigma; }
model {
  for (n in 2:N) y[n] ~ normal(alpha + beta * y[n - 1], sigma);
}
