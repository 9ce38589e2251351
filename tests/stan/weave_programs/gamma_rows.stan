// data: {"N": 12}
data { int N; vector[N] x; vector<lower=0>[N] y; }
parameters { real a; real b; real<lower=0> shape; }
model {
  vector[N] mu = exp(a + b * x);
  y ~ gamma(shape, shape ./ mu);
  target += -sum(log1p(x .* x)) * exp(-shape);
}
