// data: {"N": 9, "K": 2, "Kc": 1, "NB": 3, "M": 9, "J": "rng.permutation(N) + 1", "prior_only": 0}
// brms, gp(x, k = 3): a Gaussian process by basis functions at the values that x takes.
functions {
  vector spectral(vector slambda, real sdgp, real lscale) {
    return square(sdgp) * sqrt(2 * pi()) * lscale * exp(-0.5 * square(lscale) * square(slambda));
  }
}
data {
  int<lower=1> N;
  vector[N] Y;
  int<lower=1> K;
  matrix[N, K] X;
  int<lower=1> Kc;
  int<lower=1> NB;
  int<lower=1> M;
  array[N] int<lower=1, upper=M> J;
  matrix[M, NB] Xgp;
  vector[NB] slambda;
  int prior_only;
}
transformed data {
  matrix[N, Kc] Xc;
  vector[Kc] means_X;
  for (i in 2:K) {
    means_X[i - 1] = mean(X[ , i]);
    Xc[ , i - 1] = X[ , i] - means_X[i - 1];
  }
}
parameters {
  vector[Kc] b;
  real Intercept;
  real<lower=0> sdgp;
  real<lower=0> lscale;
  vector[NB] zgp;
  real<lower=0> sigma;
}
model {
  if (!prior_only) {
    vector[NB] rgp = sqrt(spectral(slambda, sdgp, lscale)) .* zgp;
    vector[M] gp_pred = Xgp * rgp;
    vector[N] mu = rep_vector(0.0, N);
    mu += Intercept + gp_pred[J];
    target += normal_id_glm_lpdf(Y | Xc, mu, b, sigma);
  }
  target += student_t_lpdf(sdgp | 3, 0, 2.5) + inv_gamma_lpdf(lscale | 2, 0.5);
  target += std_normal_lpdf(zgp) + student_t_lpdf(sigma | 3, 0, 2.5);
}
