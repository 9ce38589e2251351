// data: {"N": 9}
data { int N; vector[N] y; }
transformed data { real nn = N; int M = N; }
parameters { real a; real<lower=0> s; }
model { real k; int m = N; k = N; y ~ normal(a / nn + a / k + 1.0 * a / M + a / m + log(N), s); a ~ normal(N, M) T[-N, N]; }
