// Hourly calls: a Gaussian process over the day by basis functions, counts with overdispersion.
functions {
  vector spectral(real alpha, real ell, real L, int M) {
    vector[M] s;
    for (m in 1:M) {
      real w = m * pi() / (2 * L);
      s[m] = alpha * sqrt(sqrt(2 * pi()) * ell) * exp(-0.25 * square(ell * w));
    }
    return s;
  }
}
data {
  int<lower=1> N;
  int<lower=1> M;
  real<lower=0> L;
  vector[N] x;
  vector[N] weekend;
  array[N] int<lower=0> calls;
}
transformed data {
  matrix[N, M] PHI;
  for (m in 1:M)
    PHI[, m] = sin(m * pi() / (2 * L) * (x + L)) / sqrt(L);
}
parameters {
  real c;
  real b_weekend;
  vector[M] beta;
  real<lower=0> alpha;
  real<lower=0> ell;
  real<lower=0> phi;
}
model {
  vector[M] weights = spectral(alpha, ell, L, M) .* beta;
  c ~ normal(1.5, 0.5);
  b_weekend ~ normal(-0.3, 0.3);
  beta ~ std_normal();
  alpha ~ normal(0, 0.7);
  ell ~ inv_gamma(6, 2);
  phi ~ gamma(6, 2);
  calls ~ neg_binomial_2_log(c + b_weekend * weekend + PHI * weights, phi);
}
