functions {
  vector scales_horseshoe(vector lambda, real tau, real c2) {
    int K = rows(lambda);
    vector[K] lambda2 = square(lambda);
    vector[K] lambda_tilde = sqrt(c2 * lambda2 ./ (c2 + tau ^ 2 * lambda2));
    return lambda_tilde * tau;
  }
}
data {
  int<lower=1> N;
  vector[N] Y;
  int Kc;
  matrix[N, Kc] Xc;
  int Kscales;
  real hs_df;
  real hs_scale_global;
  real hs_df_global;
  real hs_df_slab;
  real hs_scale_slab;
  int prior_only;
}
parameters {
  vector[Kc] zb;
  real Intercept;
  real<lower=0> hs_global;
  real<lower=0> hs_slab;
  vector<lower=0>[Kscales] hs_local;
  real<lower=0> sigma;
}
transformed parameters {
  vector[Kc] b;
  vector<lower=0>[Kc] sdb;
  vector<lower=0>[Kscales] scales;
  real lprior = 0;
  scales = scales_horseshoe(hs_local, hs_global, hs_scale_slab ^ 2 * hs_slab);
  sdb = scales[(1) : (Kc)];
  b = zb .* sdb;
  lprior += student_t_lpdf(Intercept | 3, 0, 2.5);
  lprior += student_t_lpdf(hs_global | hs_df_global, 0, hs_scale_global
                                                        * sigma)
            - 1 * log(0.5);
  lprior += inv_gamma_lpdf(hs_slab | 0.5 * hs_df_slab, 0.5 * hs_df_slab);
  lprior += student_t_lpdf(sigma | 3, 0, 2.5)
            - 1 * student_t_lccdf(0 | 3, 0, 2.5);
}
model {
  if (!prior_only) {
    target += normal_id_glm_lpdf(Y | Xc, Intercept, b, sigma);
  }
  target += lprior;
  target += std_normal_lpdf(zb);
  target += student_t_lpdf(hs_local | hs_df, 0, 1)
            - rows(hs_local) * log(0.5);
}

