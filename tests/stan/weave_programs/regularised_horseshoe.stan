// data: {"N": 12, "D": 3}
data { int N; int D; matrix[N, D] X; vector[N] y; real m0; real slab; }
transformed data { real half_nu = 2.0; }
parameters { vector[D] z; vector<lower=0>[D] lambda; real<lower=0> tau; real<lower=0> sigma; real alpha; }
transformed parameters {
  vector[D] beta;
  { real tau0 = (2.0 / (D - 0.5)) * (sigma / sqrt(1.0 * N));
    beta = tau0 * tau * z .* lambda; }
}
model {
  z ~ normal(0, 1); lambda ~ cauchy(0, 1); tau ~ cauchy(0, 1); sigma ~ normal(0, 2); alpha ~ normal(0, 2);
  y ~ normal(X * beta + alpha, sigma);
}
