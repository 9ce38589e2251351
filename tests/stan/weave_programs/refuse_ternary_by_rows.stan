// refuse: 4 joint term of the whole outcome
data { int N; vector[N] y; }
parameters { real a; real<lower=0> s; }
model { target += sum(y - a) > 0 ? normal_lpdf(y | a, s) : normal_lpdf(y | a, 1); }
