// data: {"N": 11, "Nmi": 3, "Jmi": [11, 1, 4]}
data { int<lower=1> N; vector[N] Y; int<lower=0> Nmi; array[Nmi] int<lower=1,upper=N> Jmi; vector[N] x; }
parameters { vector[Nmi] Ymi; real a; real b; real<lower=0> sigma; }
model { vector[N] Yl = Y; Yl[Jmi] = Ymi; target += normal_lpdf(Yl | a + b * x, sigma); target += exponential_lpdf(sigma | 1); }
