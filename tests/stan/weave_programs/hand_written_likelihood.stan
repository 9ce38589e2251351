// data: {"N": 12}
data { int<lower=1> N; vector[N] x; vector[N] y; }
transformed data { real sx = sd(x); real mx = mean(x); }
parameters { real a; real b; real<lower=0> s; }
model {
  vector[N] r = y - a - b * (x - mx) / sx;
  target += -0.5 * dot_self(r) / square(s) - N * log(s);
  target += normal_lpdf(a | 0, 1) + normal_lpdf(b | 0, 1);
}
