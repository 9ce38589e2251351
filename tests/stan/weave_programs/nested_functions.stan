// data: {"N": 8}
functions {
  real f(real x, real a);
  real f(real x, real a) { return a * x + 1; }
  vector g(vector x, real a) { vector[rows(x)] r; for (i in 1:rows(x)) { r[i] = f(x[i], a); } return exp(-r .* r); }
  real h(vector x, vector y, real a, real s) { vector[num_elements(y)] m = g(x, a); return normal_lpdf(y | m, s); }
}
data { int N; vector[N] x; vector[N] y; }
parameters { real a; real<lower=0> s; }
model { target += h(x, y, a, s); }
