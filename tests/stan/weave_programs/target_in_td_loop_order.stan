// data: {"N": 9, "K": 2}
data { int N; int K; array[N] int<lower=1, upper=K> z; array[N] real y; }
transformed data { vector[K] cnt = rep_vector(0, K); array[K] real m = rep_array(0.0, K); for (n in 1:N) { cnt[z[n]] += 1; m[z[n]] += y[n]; } for (k in 1:K) m[k] /= cnt[k] + 1; }
parameters { vector[K] mu; real<lower=0> s; }
model { mu ~ normal(m, 10); y ~ normal(mu[z], s); }
