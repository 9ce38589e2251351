// data: {"N": 12}
data { int N; vector[N] x; vector<lower=0>[N] y; }
parameters { real a; real b; real<lower=0> shape; }
model { y ~ gamma(shape, shape / exp(a + b * x)); shape ~ gamma(1, 1); }
