// The share of cells that a field breaks, beta distributed about a sigmoid curve.
data {
  int<lower=1> N;
  vector<lower=0>[N] field;
  vector<lower=0, upper=1>[N] broken;
}
parameters {
  real<lower=0, upper=1> low;
  real<lower=0, upper=1> rise;
  real<lower=0> middle;
  real<lower=0> steep;
  real<lower=0> precision;
}
model {
  low ~ beta(4, 36);
  rise ~ beta(20, 5);
  middle ~ lognormal(log(1.5), 0.3);
  steep ~ gamma(12, 5);
  precision ~ gamma(8, 0.5);
  for (n in 1:N) {
    real power = pow(field[n] / middle, steep);
    real m = low + (1 - low) * rise * power / (1 + power);
    broken[n] ~ beta(m * precision, (1 - m) * precision);
  }
}
