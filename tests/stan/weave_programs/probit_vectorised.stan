// data: {"N": 12}
data { int N; vector[N] x; array[N] int<lower=0, upper=1> y; }
parameters { real alpha; real beta; }
model { alpha ~ normal(0, 2); y ~ bernoulli(Phi(alpha + beta * x)); }
