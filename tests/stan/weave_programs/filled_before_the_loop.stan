// data: {"N": 12}
// The first element stands wherever the first row does.
data { int N; vector[N] y; vector[N] x; }
parameters { real a; real b; real<lower=0> s; }
transformed parameters {
  vector[N] mu;
  mu[1] = a;
  for (n in 2:N) mu[n] = a + b * x[n - 1] + 0.5 * y[n - 1];
}
model { y ~ normal(mu, s); }
