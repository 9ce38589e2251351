// Weekly purchases, by those of the week before and by household.
data {
  int<lower=1> N;
  int<lower=1> H;
  array[N] int<lower=1, upper=H> household;
  array[N] int<lower=0> before;
  array[N] int<lower=0> now;
  vector[N] ad;
}
transformed data {
  vector[N] log_before;
  for (n in 1:N) log_before[n] = log1p(before[n]);
}
parameters {
  real a;
  real b_before;
  real b_ad;
  real<lower=0> sd_h;
  vector[H] z_h;
  real<lower=0> inv_phi;
}
model {
  target += normal_lpdf(a | 0.2, 0.3);
  target += normal_lpdf(b_before | 0.4, 0.15);
  target += normal_lpdf(b_ad | 0, 0.3);
  target += exponential_lpdf(sd_h | 3);
  target += std_normal_lpdf(z_h);
  target += exponential_lpdf(inv_phi | 3);
  for (n in 1:N)
    target += neg_binomial_2_lpmf(now[n] | exp(a + b_before * log_before[n] + b_ad * ad[n]
                                               + sd_h * z_h[household[n]]), inv(inv_phi));
}
