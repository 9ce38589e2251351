// data: {"N": 5, "T": 4}
// The rats: a line for each of N animals, weighed at the same T times.
data { int N; int T; array[T] real x; array[N, T] real y; real xbar; }
parameters { array[N] real alpha; array[N] real beta; real mu_alpha; real mu_beta; real<lower=0> s; }
model {
  alpha ~ normal(mu_alpha, 1); beta ~ normal(mu_beta, 1);
  for (n in 1:N) for (t in 1:T) y[n, t] ~ normal(alpha[n] + beta[n] * (x[t] - xbar), s);
}
