// refuse: \d+ .
functions { real f(vector y, real a) { for (i in 1:num_elements(y)) { if (y[i] > a) return y[i] * a; } return 1; } }
data { int N; vector[N] y; }
parameters { real a; }
model { target += f(y, a); y ~ normal(a, 1); }
