// data: {"N": 7}
data { int N; vector[N] y; array[N] int<lower=0, upper=1> g; int flag; }
parameters { real a; real b; }
model { vector[N] mu; for (n in 1:N) mu[n] = g[n] ? a : b; vector[N] m2 = flag ? mu : mu + 1; y ~ normal(m2, g[1] > 5 ? 1 : 2); }
