// data: {"N": 10, "P": 3}
data { int N; int P; vector[N] x; vector[N] y; }
transformed data { matrix[N, P + 1] B; for (p in 0:P) B[, p + 1] = x .^ p; }
parameters { vector[P + 1] c; real<lower=0> s; }
model { y ~ normal(B * c, s); c ~ normal(0, 1); }
