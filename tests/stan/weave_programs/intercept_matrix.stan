// data: {"N": 9, "G": 3}
data { int N; int G; array[N] int<lower=1, upper=G> g; vector[N] t; vector[N] y; }
parameters { array[G] vector[2] ab; vector[2] mu; vector<lower=0>[2] tau; real<lower=0> s; }
model { for (k in 1:G) ab[k] ~ normal(mu, tau); for (i in 1:N) y[i] ~ normal(ab[g[i]][1] + ab[g[i]][2] * t[i], s); for (i in 1:N) y[i] ~ normal(ab[g[i], 1], 2 * s); mu ~ normal(0, 1); tau ~ normal(0, 1); }
