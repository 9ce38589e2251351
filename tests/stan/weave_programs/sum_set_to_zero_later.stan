// data: {"N": 8}
functions {
  real ll(int N, vector y, real m) { real p; p = 0; for (n in 1:N) p += log(exp(-square(y[n] - m)) + 0.1); return p; }
}
data { int N; vector[N] y; }
parameters { real m; }
model { m ~ normal(0, 1); target += ll(N, y, m); }
