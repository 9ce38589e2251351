// data: {"N": 9}
// Quotients by integers of sums that have an integer as a factor, or a sign.
data { int N; vector[N] x; vector[N] y; }
parameters { real a; real b; }
model {
  real l = 0;
  target += -(sum(square(y - a)) / 2);
  target += 2 * (normal_lpdf(x | b, 1) / 3);
  for (n in 1:N) l += -abs(y[n] - b);
  target += -(-3 * l / 2) / 4;
  target += (1.0 * N + 1) / 2 * b - (3 - N * 2) * (a / 4);
}
