// data: {"N": 9, "J": 3}
data { int N; int J; array[N] int<lower=1, upper=J> j; vector[N] y; }
parameters { real m; real<lower=0> t; vector<offset=m, multiplier=t>[J] th; real<lower=0> s; }
model { th ~ normal(m, t); y ~ normal(th[j], s); m ~ normal(0, 1); }
