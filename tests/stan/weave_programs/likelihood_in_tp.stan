// data: {"N": 7, "K": 2}
data { int N; int K; matrix[N, K] X; array[N] int<lower=0, upper=1> y; }
parameters { vector[K] b; }
transformed parameters { vector[N] p; real lp; for (n in 1:N) p[n] = inv_logit(X[n] * b); lp = bernoulli_lpmf(y | p); }
model { target += lp; b ~ normal(0, 1); }
