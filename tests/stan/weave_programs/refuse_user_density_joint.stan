// refuse: 9 combines
functions {
  real car_lpdf(vector y, real rho) {
    return -0.5 * square(sum(y)) * rho;
  }
}
data { int N; vector[N] y; }
parameters { real<lower=0> rho; }
model { y ~ car(rho); }
