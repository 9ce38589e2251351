// data: {"N": 12, "K": 2}
functions {
  vector pointwise(array[] int y, matrix X, vector b) {
    int N = size(y);
    vector[N] eta = X * b;
    vector[N] out;
    for (n in 1:N) out[n] = bernoulli_logit_lpmf(y[n] | eta[n]);
    return out;
  }
}
data { int N; int K; array[N] int<lower=0, upper=1> y; matrix[N, K] X; }
parameters { vector[K] b; }
model { target += sum(pointwise(y, X, b)); b ~ student_t(3, 0, 2.5); }
