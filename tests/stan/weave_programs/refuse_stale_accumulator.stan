// refuse: 9 .
data { int N; vector[N] y; }
parameters { real q; }
model {
  real m = 0;
  real lp = 0;
  q ~ normal(0, 1);
  for (n in 1:N) { lp += normal_lpdf(y[n] | m, 1); m = m + q * (y[n] - m); }
  target += lp;
  y ~ normal(q, 2);
}
