// data: {"N": 5, "T": 6}
// obs: T
// Units in rows with parameters of their own: the user says that time points are observations.
data { int N; int T; matrix[N, T] y; vector[T] x; }
parameters { vector[N] alpha; vector[N] beta; real ma; real<lower=0> s; }
model {
  alpha ~ normal(ma, 1);
  beta ~ normal(0, 1);
  for (t in 1:T) y[, t] ~ normal(alpha + beta * x[t], s);
}
