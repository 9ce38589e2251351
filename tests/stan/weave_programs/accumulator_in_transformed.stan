// data: {"N": 7}
data { int N; vector[N] y; }
parameters { real a; }
transformed parameters { real lp = 0; for (n in 1:N) { real r = y[n] - a; lp += -square(r); } }
model { target += lp; a ~ normal(0, 1); }
