// Sums of squares in a loop; the factor comes when they are added, with a prior beside them.
data { int N; vector[N] y; }
parameters { real mu; real<lower=0> s; }
model {
  real l = 0;
  real m = exponential_lpdf(s | 1);
  for (n in 1:N) l += square(y[n] - mu);
  for (n in 1:N) {
    m = m + normal_lpdf(y[n] | mu, s);
    m += -0.1 * abs(y[n]) * s;
  }
  target += normal_lpdf(mu | 0, 2) - 0.5 * l / square(s) + cauchy_lpdf(s | 0, 1);
  target += -(-m * 2) + sum(square(y - mu));
}
