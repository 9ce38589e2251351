// data: {"N": 8, "T": 4}
data { int N; int T; matrix[N, T] y; vector[T] time; vector[N] z; }
parameters { real a; real b; real c; vector[T] gamma; real<lower=0> s; }
model {
  gamma ~ normal(0, 1);
  for (i in 1:N)
    for (t in 1:T)
      y[i, t] ~ normal(a + b * time[t] + c * z[i] + gamma[t], s);
}
