// data: {"N": 12, "J": 3, "K": 2, "first": [[1, 4], [6, 9], [10, 12]], "last": [[3, 5], [8, 9], [11, 11]]}
// Some rows are in no segment; each segment has two numbers.
data {
  int<lower=1> N;
  int<lower=1> J;
  int<lower=1> K;
  array[N] int<lower=1, upper=3> y;
  vector[N] x;
  array[J, K] int first;
  array[J, K] int last;
}
parameters {
  matrix[J, K] a;
  ordered[2] cut;
}
model {
  to_vector(a) ~ std_normal();
  for (j in 1 : J) {
    for (k in 1 : K) {
      int from = first[j, k];
      if (last[j, k] >= from) {
        y[from : last[j, k]] ~ ordered_logistic(a[j, k] - 2 * exp(x[from : last[j, k]]) / K, cut);
      }
    }
  }
}
