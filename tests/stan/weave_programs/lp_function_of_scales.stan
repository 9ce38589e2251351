// data: {"N": 8, "K": 3}
functions {
  vector scales_lp(vector t, real g) { t ~ cauchy(0, 1); g ~ normal(0, 1); return t * g; }
}
data { int N; int K; matrix[N, K] X; vector[N] y; }
parameters { vector[K] z; vector<lower=0>[K] t; real<lower=0> g; real<lower=0> s; }
transformed parameters { vector[K] b = scales_lp(t, g) .* z; }
model {
  z ~ normal(0, 1); s ~ exponential(1);
  y ~ normal(X * b, s);
}
