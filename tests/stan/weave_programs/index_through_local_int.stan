// data: {"N": 9, "G": 3}
data { int N; int G; array[N] int<lower=1, upper=G> g; vector[N] y; array[G] int<lower=0, upper=1> big; }
parameters { vector[G] a; vector[2] c; }
model { for (n in 1:N) { int k = g[n]; if (big[k]) y[n] ~ normal(a[k] + c[1], 1); else y[n] ~ student_t(3, a[k] + c[2], 1); } a ~ normal(0, 1); c ~ normal(0, 1); }
