// refuse: 5 `ll_lp` changes the target and is given data rows
functions { real ll_lp(vector y, real m, real s) { y ~ normal(m, s); return s; } }
data { int N; vector[N] y; vector[N] z; }
parameters { real m; real<lower=0> s; }
transformed parameters { real t = ll_lp(y, m, s); }
model { z ~ normal(m, 1); }
