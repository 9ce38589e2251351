// refuse: 7 `ll_lp` changes the target and is given data rows
functions { real ll_lp(vector y, real m, real s) { y ~ normal(m, s); return m; } }
data { int N; vector[N] y; vector[N] z; }
parameters { real m; real<lower=0> s; }
model {
  z ~ normal(m, 2);
  if (ll_lp(y, m, s) > 0) m ~ normal(0, 1);
}
