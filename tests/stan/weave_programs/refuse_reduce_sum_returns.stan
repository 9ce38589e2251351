// refuse: 12 returns from more than one place
functions {
  real partial_sum(array[] int y_slice, int start, int end, vector x, vector beta) {
    if (end < start) return 0;
    return bernoulli_logit_lpmf(y_slice | beta[1] + beta[2] * x[start:end]);
  }
}
data { int N; array[N] int y; vector[N] x; int grainsize; }
parameters { vector[2] beta; }
model {
  beta ~ std_normal();
  target += reduce_sum(partial_sum, y, grainsize, x, beta);
}
