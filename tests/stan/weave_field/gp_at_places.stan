functions {
  vector gp_exp_quad(data array[] vector x, real sdgp, vector lscale,
                     vector zgp) {
    int N = size(x);
    matrix[N, N] cov = gp_exp_quad_cov(x, sdgp, lscale[1])
                       + diag_matrix(rep_vector(1e-6, N));
    return cholesky_decompose(cov) * zgp;
  }
}
data {
  int<lower=1> N;
  vector[N] Y;
  int Dgp_1;
  int Nsubgp_1;
  array[Nsubgp_1] int Jgp_u;
  array[N] int<lower=1> Jgp_1;
  array[Nsubgp_1] vector[Dgp_1] Xgp_1;
  int prior_only;
}
parameters {
  real Intercept;
  real<lower=0> sdgp_1;
  vector<lower=0>[1] lscale_1;
  vector[Nsubgp_1] zgp_1;
  real<lower=0> sigma;
}
model {
  if (!prior_only) {
    vector[Nsubgp_1] gp_pred_1 = gp_exp_quad(Xgp_1, sdgp_1, lscale_1, zgp_1);
    vector[N] mu = rep_vector(0.0, N);
    mu += Intercept + gp_pred_1[Jgp_1];
    target += normal_lpdf(Y | mu, sigma);
  }
  target += std_normal_lpdf(zgp_1) + exponential_lpdf(sdgp_1 | 1)
            + inv_gamma_lpdf(lscale_1 | 3, 1) + exponential_lpdf(sigma | 1)
            + normal_lpdf(Intercept | 0, 1);
}

