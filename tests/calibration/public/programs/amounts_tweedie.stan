// Losses of contracts: gamma claims, a Poisson number of them, which is summed out.
functions {
  real compound_lpdf(real loss, real mean_, real dispersion, real power, int most) {
    real rate_of_claims = pow(mean_, 2 - power) / ((2 - power) * dispersion);
    real shape = (2 - power) / (power - 1);
    real rate = pow(mean_, 1 - power) / ((power - 1) * dispersion);
    if (loss == 0) {
      return -rate_of_claims;
    }
    array[most] real lp;
    for (claims in 1:most) {
      lp[claims] = poisson_lpmf(claims | rate_of_claims)
                   + gamma_lpdf(loss | claims * shape, rate);
    }
    return log_sum_exp(lp);
  }
}
data {
  int<lower=1> N;
  int<lower=1> most;
  vector<lower=0>[N] loss;
  vector[N] log_years;
  vector[N] age;
  vector[N] city;
}
parameters {
  real a;
  real b_age;
  real b_city;
  real<lower=0> dispersion;
  real<lower=0, upper=1> excess;
}
model {
  a ~ normal(-0.3, 0.3);
  b_age ~ normal(0, 0.3);
  b_city ~ normal(0, 0.3);
  dispersion ~ gamma(10, 10);
  excess ~ beta(10, 10);
  for (n in 1:N) {
    real m = exp(a + b_age * age[n] + b_city * city[n] + log_years[n]);
    target += compound_lpdf(loss[n] | m, dispersion, 1 + excess, most);
  }
}
