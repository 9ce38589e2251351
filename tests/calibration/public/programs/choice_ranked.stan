// Rankings from best to worst: a logit of the first, of the second among the others, and so on.
functions {
  real ranked_lpdf(vector u, int number) {
    real total = 0;
    for (j in 1:(number - 1))
      total += u[j] - log_sum_exp(u[j:number]);
    return total;
  }
}
data {
  int<lower=1> N;
  int<lower=2> J;
  int<lower=1> K;
  array[N] matrix[J, K] X; // rows from best to worst
}
parameters {
  vector[K] b;
}
model {
  b ~ normal(0, 0.7);
  for (n in 1:N)
    target += ranked_lpdf(X[n] * b | J);
}
