// refuse: 7 .*adds up observations.*
// A square of the sum couples all rows.
data { int N; vector[N] y; }
parameters { real mu; }
model {
  real l = 0; for (n in 1:N) l += y[n] - mu;
  target += -0.5 * l * l;
}
