functions {
  real partial_sum(array[] int y_slice, int start, int end, vector x, vector beta) {
    return bernoulli_logit_lpmf(y_slice | beta[1] + beta[2] * x[start:end]);
  }
}
data { int N; array[N] int<lower=0, upper=1> y; vector[N] x; int<lower=1> grainsize; }
parameters { vector[2] beta; }
model {
  beta ~ std_normal();
  target += reduce_sum(partial_sum, y, grainsize, x, beta);
}
