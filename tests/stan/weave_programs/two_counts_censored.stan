// data: {"N": 9, "C": 6, "K": 2, "has_offset": 1}
// Times that were observed and times that were censored, each with a count and a design of its own.
data { int<lower=0> N; int<lower=0> C; int<lower=0> K; vector<lower=0>[N] t; matrix[N, K] X; vector<lower=0>[C] cens; matrix[C, K] X_cens; int has_offset; vector[has_offset ? C : 0] off; }
transformed data { vector[K] m; matrix[N, K] Xc; for (k in 1:K) { m[k] = mean(X[,k]); Xc[,k] = X[,k] - m[k]; } }
parameters { vector[K] b; real<lower=0> alpha; }
model {
  b ~ normal(0, 1); alpha ~ exponential(1);
  t ~ weibull(alpha, exp(Xc * b));
  target += weibull_lccdf(cens | alpha, exp(X_cens * b - m[1]));
  if (has_offset) off ~ normal(b[1], 1);
}
