// data: {"N": 12}
functions {
  real shifted_lpdf(vector y, vector mu, real s) {
    int n = num_elements(y);
    real lp = 0;
    for (i in 1:n) lp += normal_lpdf(y[i] | mu[i] + 1, s) - log1p(s);
    return lp;
  }
}
data { int N; vector[N] y; vector[N] x; }
parameters { real a; real<lower=0> s; }
model { y ~ shifted(a * x, s); }
