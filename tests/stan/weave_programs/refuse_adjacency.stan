// refuse: \d .
data { int N; matrix[N, N] W; vector[N] y; }
parameters { real rho; real<lower=0> s; }
model { y ~ normal(rho * W * y, s); }
