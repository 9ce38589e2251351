functions {
  real mo(vector scale, int i) {
    if (i == 0) {
      return 0;
    } else {
      return rows(scale) * sum(scale[1 : i]);
    }
  }
}
data {
  int<lower=1> N;
  vector[N] Y;
  int Ksp;
  int Imo;
  array[Imo] int Jmo;
  array[N] int Xmo_1;
  vector[Jmo[1]] con_simo_1;
  int prior_only;
}
parameters {
  real Intercept;
  simplex[Jmo[1]] simo_1;
  vector[Ksp] bsp;
  real<lower=0> sigma;
}
model {
  if (!prior_only) {
    vector[N] mu = rep_vector(0.0, N);
    mu += Intercept;
    for (n in 1 : N) {
      mu[n] += (bsp[1]) * mo(simo_1, Xmo_1[n]);
    }
    target += normal_lpdf(Y | mu, sigma);
  }
  target += dirichlet_lpdf(simo_1 | con_simo_1);
  target += normal_lpdf(bsp | 0, 1) + normal_lpdf(Intercept | 0, 1)
            + exponential_lpdf(sigma | 1);
}

