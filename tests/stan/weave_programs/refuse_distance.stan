// refuse: \d .
data { int N; array[N] vector[2] loc; vector[N] y; }
parameters { real<lower=0> rho; real mu; }
model {
  for (i in 1:N) for (j in 1:N) if (i != j) target += -square(y[i] - y[j]) * exp(-distance(loc[i], loc[j]) / rho);
  y ~ normal(mu, 1);
}
