// data: {"N": 12}
data { int N; array[N] int<lower=0, upper=1> a; array[N] int<lower=0, upper=1> b; array[N] int<lower=0> y; }
transformed data { array[N] int cell; for (n in 1:N) cell[n] = 1 + a[n] + 2 * b[n]; }
parameters { vector[4] th; }
model { y ~ poisson_log(th[cell]); th ~ normal(0, 1); for (n in 1:N) { int i = cell[n] > 2 ? 1 : 2; target += -square(th[i]) * 0.01; } }
