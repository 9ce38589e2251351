// Deaths of the old: a Gompertz hazard whose level depends on sex, smoking and birth.
functions {
  real gompertz_lpdf(vector t, vector d, vector log_level, real slope) {
    vector[num_elements(t)] H = exp(log_level) .* expm1(slope * t) / slope;
    return dot_product(d, log_level + slope * t) - sum(H);
  }
}
data {
  int<lower=1> N;
  vector<lower=0>[N] t;
  vector<lower=0, upper=1>[N] d;
  matrix[N, 3] Z;
}
parameters {
  real a;
  vector[3] b;
  real<lower=0> slope;
}
model {
  a ~ normal(-2, 0.4);
  b ~ normal(0, 0.4);
  slope ~ gamma(8, 20);
  target += gompertz_lpdf(t | d, a + Z * b, slope);
}
