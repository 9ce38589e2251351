// refuse: \d+ .
data { int N; int J; vector[N] y; }
parameters { vector[J] th; }
model { for (n in 1:N) y[n] ~ normal(th[n], 1); th ~ normal(0, 1); }
