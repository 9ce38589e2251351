// data: {"N": 11, "c": "np.resize([1, 0, 1], N)"}
data { int N; vector[N] y; array[N] int<lower=0, upper=1> c; }
transformed data { int nc = sum(c); array[nc] int ix; { int k = 1; for (n in 1:N) if (c[n]) { ix[k] = n; k += 1; } } }
parameters { real a; }
model { y[ix] ~ normal(a, 1); }
