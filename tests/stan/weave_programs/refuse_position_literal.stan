// refuse: 5 .
data { int N; vector[N] y; }
parameters { real mu; real m0; }
model { y ~ normal(mu, 1);
  y[1] ~ normal(m0, 1); }
