// data: {"N": 8, "K": 3}
data { int N; int K; array[N] simplex[K] y; }
parameters { vector<lower=0>[K] alpha; }
model { y ~ dirichlet(alpha); alpha ~ gamma(2, 1); }
