// data: {"N": 13, "J": 4, "s": [3, 0, 6, 4]}
// Groups of different sizes, one after the other; statements of another kind in the same loop.
data {
  int<lower=1> N;
  int<lower=1> J;
  vector[N] y;
  matrix[N, 2] x;
  vector[N] z;
  array[J] int<lower=0> s;
}
parameters {
  vector[J] mu;
  vector[2] b;
  real<lower=0> sigma;
}
model {
  int pos;
  pos = 1;
  b ~ std_normal();
  for (j in 1 : J) {
    mu[j] ~ normal(0, 2);
    segment(y, pos, s[j]) ~ normal(mu[j] + x[pos : (pos + s[j] - 1)] * b, sigma);
    target += cauchy_lpdf(segment(z, pos, s[j]) | mu[j] + 0.5 * segment(y, pos, s[j]), 1);
    pos = pos + s[j];
  }
}
