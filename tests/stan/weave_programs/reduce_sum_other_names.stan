// data: {"N": 9}
// `k` is the row in one loop and its group in the other: neither is read as the other.
functions {
  real part(array[] int rows, int start, int end, array[] int y, array[] int g, vector a) {
    real lp = 0;
    int shift = 1;
    int before = shift;
    shift += 1;
    for (n in start : end) {
      int k = n;
      lp += poisson_log_lpmf(y[k] | a[1] * before);
    }
    for (n in start : end) {
      int k = g[n];
      lp += poisson_log_lpmf(y[n] | a[k] / shift);
    }
    return lp;
  }
}
data {
  int<lower=1> N;
  array[N] int<lower=0, upper=4> y;
  array[N] int<lower=1, upper=3> g;
}
transformed data {
  array[N] int rows = linspaced_int_array(N, 1, N);
}
parameters {
  vector[3] a;
}
model {
  a ~ std_normal();
  target += reduce_sum(part, rows, 1, y, g, a);
}
