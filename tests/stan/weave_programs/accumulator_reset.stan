// data: {"N": 9}
// What the first loop added is thrown away, that of its rows as well.
data { int N; vector[N] y; }
parameters { real mu; }
model {
  real l = 0;
  for (n in 1:N) l += square(y[n] - mu);
  l = 0; for (n in 1:N) l += abs(y[n] - mu);
  target += -l;
}
