// data: {"N": 6, "T": 3}
// obs: N
data { int N; int T; matrix[N, T] y; vector[T] time; vector[N] z; }
parameters { real a; real b; real<lower=0> s; }
model { for (t in 1:T) col(y, t) ~ normal(a + b * time[t] + z, s); }
