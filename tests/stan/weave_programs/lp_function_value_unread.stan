// data: {"N": 9}
// rstanarm gives its functions a value that nothing reads.
functions {
  real ll_lp(vector y, real m, real s) {
    real ll = 0;
    for (i in 1:rows(y)) ll += normal_lpdf(y[i] | m, s);
    target += ll;
    return ll;
  }
}
data { int N; vector[N] y; vector[N] z; }
parameters { real m; real<lower=0> s; }
model {
  real dummy = ll_lp(y, m, s);
  m ~ normal(0, 1);
  z ~ normal(m, 2);
}
