// data: {"N": 6}
data { int N; array[N] int<lower=0, upper=4> k; vector[N] y; }
parameters { real a; real<lower=0, upper=1> p; }
model { for (n in 1:N) { int j = 0; real lp = 0; while (j < k[n]) { lp += log(p) * 0.1; j += 1; } target += lp + normal_lpdf(y[n] | a, 1); } }
