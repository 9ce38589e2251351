// refuse: \d+ .
functions { vector c(vector x) { return x / num_elements(x); } }
data { int N; vector[N] y; vector[N] x; }
parameters { real a; }
model { y ~ normal(c(x) * a, 1); }
