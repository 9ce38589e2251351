// data: {"N": 9}
data { int N; vector[N] y; }
transformed data { real sdy = sd(y); real my = mean(y); }
parameters { real<offset=my, multiplier=sdy> m; real<lower=0, upper=10 * sd(y)> s; }
model { m ~ normal(my, 2.5 * sdy); s ~ exponential(1 / sdy); y ~ normal(m, s); }
