// refuse: 12 .y.own.. picks observations by .own.
// Row by row, the mean of selected rows would be the row itself.
functions {
  real robust_lpdf(vector y, vector mu, real s, real nu) {
    if (nu > 50) return normal_lpdf(y | mu, s);
    return student_t_lpdf(y | nu, mu, s) - 0.01 * size(y);
  }
}
data { int<lower=1> N; vector[N] x; vector[N] y; array[3] int own; }
parameters { real a; real b; real<lower=0> s; real<lower=2> nu; }
model {
  y[own] ~ robust(a + b * x[own], mean(x[own]), nu);
  [a, b, s, nu] ~ normal(0, 1);
}
