// refuse: \d+ .
data { int N; int K; matrix[N, K] X; vector[N] y; }
parameters { vector[K] b; real<lower=0> s; }
transformed parameters { real R2 = variance(X * b) / (variance(X * b) + s^2); }
model { y ~ normal(X * b, s); R2 ~ beta(2, 2); }
