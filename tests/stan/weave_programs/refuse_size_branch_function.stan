// refuse: \d+ .
functions { real f(vector y, real a) { if (num_elements(y) > 3) return normal_lpdf(y | a, 1); return normal_lpdf(y | a, 2); } }
data { int N; vector[N] y; }
parameters { real a; }
model { target += f(y, a); }
