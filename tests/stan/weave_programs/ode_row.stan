// data: {"N": 5, "ts": "rng.uniform(0.5, 2, N)"}
functions { vector dec(real t, vector z, real k) { return -k * z; } }
data { int N; array[N] real ts; vector<lower=0>[N] y; }
parameters { real<lower=0> k; real<lower=0> s; }
model { for (n in 1:N) { array[1] vector[1] z = ode_rk45(dec, [1.0]', 0.0, {ts[n]}, k); y[n] ~ lognormal(log(z[1, 1]), s); } k ~ lognormal(0, 1); }
