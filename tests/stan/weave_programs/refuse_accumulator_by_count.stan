// refuse: 7 .*adds up observations.*
// The mean of the rows' terms: the factor 1 / N is not the same for fewer rows.
data { int N; vector[N] y; }
parameters { real mu; }
model {
  real l = 0; for (n in 1:N) l += square(y[n] - mu);
  target += -0.5 * l / N;
}
