// data: {"N": 8}
data { int N; vector[N] weights; vector[N] height; }
parameters { real a; real b; real<lower=0> s; }
model { a ~ normal(0, 10); b ~ normal(0, 10); s ~ exponential(1); height ~ normal(a + b * weights, s); }
generated quantities { vector[N] log_lik; for (n in 1:N) log_lik[n] = normal_lpdf(height[n] | a + b * weights[n], s); }
