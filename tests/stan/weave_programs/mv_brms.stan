// data: {"N": 8, "nresp": 2, "nrescor": 1, "Ka": 2, "Kb": 2}
data { int N; vector[N] Y_a; vector[N] Y_b; int Ka; matrix[N, Ka] X_a; int Kb; matrix[N, Kb] X_b; int nresp; int nrescor; }
transformed data { array[N] vector[nresp] Y; for (n in 1:N) { Y[n] = transpose([Y_a[n], Y_b[n]]); } }
parameters { vector[Ka] b_a; vector[Kb] b_b; real<lower=0> sigma_a; real<lower=0> sigma_b; cholesky_factor_corr[nresp] Lrescor; }
model {
  vector[N] mu_a = X_a * b_a;
  vector[N] mu_b = X_b * b_b;
  array[N] vector[nresp] Mu;
  vector[nresp] sigma = transpose([sigma_a, sigma_b]);
  matrix[nresp, nresp] LSigma = diag_pre_multiply(sigma, Lrescor);
  for (n in 1:N) { Mu[n] = transpose([mu_a[n], mu_b[n]]); }
  target += multi_normal_cholesky_lpdf(Y | Mu, LSigma);
  target += lkj_corr_cholesky_lpdf(Lrescor | 1);
}
