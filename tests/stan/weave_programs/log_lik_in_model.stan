// data: {"N": 10}
data { int N; vector[N] y; vector[N] x; }
parameters { real a; real b; real<lower=0> s; }
transformed parameters { vector[N] log_lik; for (n in 1:N) log_lik[n] = normal_lpdf(y[n] | a + b * x[n], s); }
model { target += sum(log_lik); a ~ normal(0, 1); }
