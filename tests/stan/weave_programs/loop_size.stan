// data: {"N": 10, "K": 2}
data { int N; int K; array[N] row_vector[K] X; array[N] real y; }
parameters { vector[K] b; real<lower=0> s; }
model { for (i in 1:size(y)) target += normal_lupdf(y[i] | X[i] * b, s); for (i in 1:num_elements(y)) target += -0.01 * square(y[i]) * s; }
