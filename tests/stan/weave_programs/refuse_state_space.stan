// refuse: \d+ .*`x\[t - 1\]`.*state-space
data { int T; vector[T] y; }
parameters { vector[T] x; real<lower=0> q; }
model { x[1] ~ normal(0, 1); for (t in 2:T) x[t] ~ normal(x[t - 1], q); y ~ normal(x, 1); }
