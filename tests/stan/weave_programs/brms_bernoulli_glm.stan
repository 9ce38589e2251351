// data: {"N": 12, "K": 2, "prior_only": 0, "Y": "rng.integers(0, 2, N)"}
data {
  int<lower=1> N;
  array[N] int Y;
  int<lower=1> K;
  matrix[N, K] X;
  int prior_only;
}
parameters {
  vector[K] b;
  real Intercept;
}
model {
  if (!prior_only) {
    target += bernoulli_logit_glm_lpmf(Y | X, Intercept, b);
  }
  target += student_t_lpdf(Intercept | 3, 0, 2.5);
}
