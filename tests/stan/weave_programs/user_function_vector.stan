// data: {"N": 12}
functions {
  vector curve(vector x, real a, real b) {
    vector[num_elements(x)] out;
    for (i in 1:num_elements(x)) out[i] = a * exp(-b * x[i]);
    return out;
  }
  vector simple(vector x, real a) { return a + square(x); }
}
data { int N; vector[N] y; vector<lower=0>[N] x; }
parameters { real a; real<lower=0> b; real<lower=0> s; }
model { y ~ normal(curve(x, a, b) + simple(x, a), s); b ~ lognormal(0, 1); }
