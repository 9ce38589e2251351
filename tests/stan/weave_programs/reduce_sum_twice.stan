// Two outcomes by one function, whose own names are those of data and of the model block.
functions {
  real part_lpmf(array[] int rows, int start, int end, array[] int y, vector x, array[] int g,
                 vector r, real slope) {
    int N = end - start + 1;
    real lp = 0;
    vector[N] eta;
    for (n in 1:N) {
      int m = start + n - 1;
      eta[n] = r[g[m]] + slope * x[m];
      lp += poisson_log_lpmf(y[m] | eta[n]);
    }
    return lp;
  }
}
data {
  int<lower=1> N;
  int<lower=1> J;
  array[N] int<lower=0, upper=5> y;
  array[N] int<lower=0, upper=5> z;
  vector[N] x;
  array[N] int<lower=1, upper=J> g;
}
transformed data {
  array[N] int rows = linspaced_int_array(N, 1, N);
}
parameters {
  vector[J] r;
  vector[2] slope;
  real<lower=0> tau;
}
model {
  vector[2] eta = slope * 0.5;
  tau ~ exponential(1);
  r ~ normal(0, tau);
  slope ~ normal(0, 1);
  target += reduce_sum_static(part_lpmf, rows, 1, y, x, g, r, eta[1]);
  target += 2.5 + reduce_sum(part_lupmf, rows, 1, z, x, g, r, eta[2]);
}
