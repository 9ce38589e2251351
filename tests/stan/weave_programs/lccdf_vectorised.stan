// data: {"N": 9}
data { int N; vector<lower=0>[N] t; vector[N] x; }
parameters { real a; real<lower=0> s; }
model { target += weibull_lccdf(t | s, exp(a + x)); target += exponential_lcdf(t | s); a ~ normal(0, 1); }
