// data: {"N": 12}
data { int N; vector[N] y; vector[N] x; }
parameters { real mu; real m0; real b; }
model { y ~ normal(mu, 1);
  y[1] ~ normal(m0 + b * x[1], 1); }
