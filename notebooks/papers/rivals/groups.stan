// logistic regression with an intercept for each group, non-centred, as brms writes it
data {
  int<lower=1> N;
  array[N] int Y;
  int<lower=1> Kc;
  matrix[N, Kc] Xc;
  int<lower=1> N_1;
  int<lower=1> M_1;
  array[N] int<lower=1> J_1;
}
parameters {
  vector[Kc] b;
  real Intercept;
  vector<lower=0>[M_1] sd_1;
  array[M_1] vector[N_1] z_1;
}
transformed parameters {
  vector[N_1] r_1_1;
  real lprior = 0;
  r_1_1 = sd_1[1] * z_1[1];
  lprior += normal_lpdf(b | 0, 2.5);
  lprior += student_t_lpdf(Intercept | 3, 0, 2.5);
  lprior += student_t_lpdf(sd_1 | 3, 0, 2.5) - 1 * student_t_lccdf(0 | 3, 0, 2.5);
}
model {
  vector[N] mu = rep_vector(0.0, N);
  mu += Intercept;
  for (n in 1:N) {
    mu[n] += r_1_1[J_1[n]];
  }
  target += bernoulli_logit_glm_lpmf(Y | Xc, mu, b);
  target += lprior;
  target += std_normal_lpdf(z_1[1]);
}
