// refuse: \d+ .
data { int N; int J; vector[N] y; }
parameters { vector[J] th; }
model { y ~ normal(th, 1); th ~ normal(0, 1); }
