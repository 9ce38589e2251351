// Conjoint tasks: alternatives with attributes, one set of part worths.
data {
  int<lower=2> A;
  int<lower=1> L;
  int<lower=1> N;
  array[N] int<lower=1, upper=A> Y;
  array[N] matrix[A, L] X;
}
parameters {
  vector[L] B;
}
model {
  B ~ normal(0, 0.7);
  for (n in 1:N) {
    Y[n] ~ categorical_logit(X[n] * B);
  }
}
