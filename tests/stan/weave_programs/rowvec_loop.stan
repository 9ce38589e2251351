// data: {"N": 9, "K": 2}
data { int N; int K; array[N] vector[K] x; array[N] int<lower=0, upper=1> y; }
parameters { vector[K] b; real a; }
model { for (i in 1:N) y[i] ~ bernoulli_logit(a + dot_product(x[i], b)); b ~ normal(0, 1); }
