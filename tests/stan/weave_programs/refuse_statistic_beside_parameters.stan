// refuse: 5 prior
data { int N; vector[N] y; }
parameters { real mu; real<lower=0> s; }
model {
  mu ~ normal(mean(y), s * sd(y));
  y ~ normal(mu, s);
}
