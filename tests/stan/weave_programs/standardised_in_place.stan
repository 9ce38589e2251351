// data: {"N": 12}
data { int N; vector[N] x; vector[N] y; }
transformed data {
  vector[N] x_std = (x - mean(x)) / sd(x);
  vector[N] y_std = (y - mean(y)) / sd(y);
  vector[N] xy = x_std .* x;
}
parameters { real a; real b; real c; real<lower=0> s; }
model { y_std ~ normal(a + b * x_std + c * xy, s); [a, b, c] ~ normal(0, 1); }
