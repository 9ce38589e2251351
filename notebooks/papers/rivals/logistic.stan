// logistic regression, as brms writes it
data {
  int<lower=1> N;
  array[N] int Y;
  int<lower=1> Kc;
  matrix[N, Kc] Xc;
}
parameters {
  vector[Kc] b;
  real Intercept;
}
transformed parameters {
  real lprior = 0;
  lprior += normal_lpdf(b | 0, 2.5);
  lprior += student_t_lpdf(Intercept | 3, 0, 2.5);
}
model {
  target += bernoulli_logit_glm_lpmf(Y | Xc, Intercept, b);
  target += lprior;
}
