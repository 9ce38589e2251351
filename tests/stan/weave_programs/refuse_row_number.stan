// refuse: 10 number of a row
functions {
  vector trend(vector x, real b) {
    vector[num_elements(x)] mu;
    for (n in 1:num_elements(x)) mu[n] = x[n] + b * n;
    return mu;
  }
}
data { int N; vector[N] y; vector[N] x; } parameters { real a; real b; }
model { y ~ normal(a + trend(x, b), 1); }
