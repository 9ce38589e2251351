// data: {"N": 9, "J": 2, "g": [1, 2, 1, 1, 2, 2, 1, 2, 1]}
// Residuals of the row before, whose mean is computed in steps.
data { int N; int J; array[N] int<lower=1, upper=J> g; vector[N] x; vector[N] y; }
parameters { real a; real b; vector[J] u; real phi; real<lower=0> s; }
transformed parameters { vector[N] eta = a + b * x; }
model {
  vector[N] mu = eta;
  vector[N] nu;
  for (n in 1:N) { real shift = u[g[n]]; mu[n] = mu[n] + shift; }
  nu[1] = mu[1];
  for (n in 2:N) nu[n] = mu[n] + phi * (y[n - 1] - mu[n - 1]);
  a ~ normal(0, 1); b ~ normal(0, 1); u ~ normal(0, 1); phi ~ normal(0, 0.5); s ~ exponential(1);
  y ~ normal(nu, s);
}
