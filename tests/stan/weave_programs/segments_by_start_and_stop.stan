// data: {"N": 11, "G": 3, "start": [1, 5, 7], "stop": [4, 6, 11]}
data { int N; int G; array[G] int start; array[G] int stop; vector[N] y; }
parameters { vector[G] m; }
model { for (g in 1:G) y[start[g]:stop[g]] ~ normal(m[g], 1); m ~ normal(0, 1); }
