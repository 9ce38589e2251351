// data: {"N": 10, "K": 0, "Kz": 2}
data { int N; int K; int Kz; matrix[K > 0 ? N : 0, K] X; matrix[Kz > 0 ? N : 0, Kz] Z; vector[N] y; }
parameters { vector[K] b; vector[Kz] c; real a; real<lower=0> s; }
model { vector[N] mu = rep_vector(a, N); if (K > 0) mu += X * b; if (Kz > 0) mu += Z * c; b ~ normal(0,1); c ~ normal(0,1); y ~ normal(mu, s); s ~ exponential(1); }
