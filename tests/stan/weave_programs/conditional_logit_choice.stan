// data: {"N": 6, "A": 3, "P": 2}
data { int N; int A; int P; array[N] matrix[A, P] X; array[N] int<lower=1, upper=A> y; }
parameters { vector[P] b; }
model { for (i in 1:N) y[i] ~ categorical_logit(X[i] * b); b ~ normal(0, 1); }
