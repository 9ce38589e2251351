// data: {"N": 12}
// A density that returns from two places is not written out; its rows are selected, and some of them twice.
functions {
  real robust_lpdf(vector y, vector mu, real s, real nu) {
    if (nu > 50) return normal_lpdf(y | mu, s);
    return student_t_lpdf(y | nu, mu, s) - 0.01 * size(y);
  }
}
data { int<lower=1> N; vector[N] x; vector[N] y; array[N] int<lower=0, upper=1> keep; }
transformed data {
  int K = sum(keep);
  array[N] int own;
  array[3] int again = {2, 3, 2};
  {
    int k = 0;
    for (n in 1:N) if (keep[n] == 1) { k += 1; own[k] = n; }
  }
}
parameters { real a; real b; real<lower=0> s; real<lower=2> nu; }
model {
  vector[N] mu = a + b * x;
  target += robust_lpdf(y[own[1:K]] | mu[own[1:K]], s, nu);
  y[again] ~ robust(mu[again], s, nu);
  [a, b, s, nu] ~ normal(0, 1);
}
