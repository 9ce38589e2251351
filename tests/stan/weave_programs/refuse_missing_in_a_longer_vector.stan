// refuse: 4 .*`Yl\[Jmi\]` writes into single observations.*missing values
data { int<lower=1> N; vector[N] Y; int<lower=0> Nmi; array[Nmi] int<lower=1,upper=N> Jmi; vector[N] x; }
parameters { vector[Nmi + 1] Ymi; real a; real b; real<lower=0> sigma; }
model { vector[N] Yl = Y; Yl[Jmi] = Ymi[2:(Nmi + 1)]; target += normal_lpdf(Yl | a + b * x, sigma); target += exponential_lpdf(sigma | 1); }
