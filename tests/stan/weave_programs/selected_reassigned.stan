// data: {"N": 9, "M": 4, "ii": "rng.permutation(N)[:M]+1"}
data { int N; int M; array[M] int ii; vector[N] y; vector[N] x; }
parameters { real a; real b; real<lower=0> s; }
model { vector[N] mu = rep_vector(a, N); mu += b * x; y[ii] ~ normal(mu[ii], s); mu = mu * 2; target += normal_lcdf(y[ii[1:2]] | mu[ii[1:2]], s); }
