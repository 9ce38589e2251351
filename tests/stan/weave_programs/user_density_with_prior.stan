// data: {"N": 12}
functions {
  real my_lpdf(vector y, real mu, real s) { return normal_lpdf(y | mu, s) + normal_lpdf(mu | 0, 1); }
}
data { int N; vector[N] y; }
parameters { real mu; real<lower=0> s; }
model { y ~ my(mu, s); }
