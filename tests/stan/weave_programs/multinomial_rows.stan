// data: {"N": 8, "K": 3, "D": 2, "y": "rng.integers(0, 6, (N, K))"}
data { int N; int K; int D; array[N, K] int<lower=0> y; matrix[N, D] x; }
parameters { matrix[D, K] B; }
model { for (n in 1:N) y[n] ~ multinomial(softmax((x[n] * B)')); to_vector(B) ~ normal(0, 1); }
