// data: {"N": 10, "K": 3}
data { int N; int K; matrix[N, K] Y; vector[N] x; }
parameters { vector[K] a; vector[K] b; vector<lower=0>[K] s; }
model { for (k in 1:K) Y[, k] ~ normal(a[k] + b[k] * x, s[k]); a ~ normal(0, 1); }
