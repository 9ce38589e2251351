// data: {"N": 14, "K": 3}
data { int K; int N; array[N] int<lower=1, upper=K> y; vector<lower=0>[K] alpha; }
parameters { simplex[K] theta; }
model { theta ~ dirichlet(alpha); y ~ categorical(theta); }
