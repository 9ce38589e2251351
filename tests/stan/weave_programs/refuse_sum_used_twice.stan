// refuse: 5 .
data { int N; vector[N] y; }
parameters { real mu; }
model { real s = sum(square(y - mu));
  s ~ chi_square(N); }
