// data: {"N": 7, "C": 5, "K": 2}
// Times and censored times in one statement.
data { int N; int C; int K; matrix[N, K] X; matrix[C, K] X_cens; vector<lower=0>[N] t; vector<lower=0>[C] c; }
parameters { vector[K] b; real a; real<lower=0> shape; }
model {
  b ~ normal(0, 2); a ~ normal(0, 2); shape ~ exponential(1);
  target += weibull_lpdf(t | shape, exp(a + X * b)) + weibull_lccdf(c | shape, exp(a + X_cens * b));
}
