// refuse: \d+ .
data { int N; int G; array[G] int start; array[G] int stop; vector[N] y; }
parameters { vector[G] m; }
model { for (g in 1:G) y[start[g]:stop[g]] ~ normal(m[g], 1); m ~ normal(0, 1); }
