// data: {"K": 4, "N": 14}
data { int K; int N; array[N] int<lower=1, upper=K> player1; array[N] int<lower=1, upper=K> player0; array[N] int<lower=0, upper=1> y; }
parameters { real<lower=0> sigma; vector[K] alpha; }
model { sigma ~ lognormal(0, 0.5); alpha ~ normal(0, sigma); y ~ bernoulli_logit(alpha[player1] - alpha[player0]); }
