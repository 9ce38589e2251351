// data: {"N": 9}
data { int N; vector[N] y; vector[N] x; }
parameters { real a; real b; real<lower=0> s; }
model {
  real lp1 = 0; real lp2 = 0;
  for (n in 1:N) { real r = y[n] - a; lp1 += -0.5 * square(r); }
  for (n in 1:N) lp2 += normal_lpdf(x[n] | b, s);
  target += lp1; target += lp2; target += normal_lpdf(a | 0, 1);
}
