// data: {"N": 12, "K": 2}
data { int N; int K; matrix[N, K] X; vector<lower=0, upper=1>[N] y; }
parameters { vector[K] b; real a; real<lower=0> phi; }
transformed parameters { vector<lower=0, upper=1>[N] mu = inv_logit(a + X * b); }
model { y ~ beta(mu * phi, (1 - mu) * phi); phi ~ gamma(1, 0.1); b ~ normal(0, 1); }
