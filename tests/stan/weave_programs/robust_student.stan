// data: {"N": 12, "K": 2}
data { int N; int K; matrix[N, K] X; array[N] real y; }
parameters { vector[K] b; real<lower=1> nu; real<lower=0> s; }
model { y ~ student_t(nu, X * b, s); nu ~ gamma(2, 0.1); }
