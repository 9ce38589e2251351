// refuse: 6 .
data { int N; vector[N] y; }
parameters { real mu; }
model {
  real s = 0; for (n in 1:N) s += square(y[n] - mu);
  target += -0.5 * s;
}
