// Ponds with newts or without, visited several times.
data {
  int<lower=1> ponds;
  int<lower=1> visits;
  array[ponds, visits] int<lower=0, upper=1> seen;
  vector[ponds] depth;
  vector[ponds] wooded;
}
parameters {
  vector[3] occ;
  vector[2] det;
}
model {
  occ ~ normal(0, 0.7);
  det[1] ~ normal(-0.3, 0.5);
  det[2] ~ normal(0, 0.5);
  for (k in 1:ponds) {
    real psi = occ[1] + occ[2] * depth[k] + occ[3] * wooded[k];
    real lp = log_inv_logit(psi) + bernoulli_logit_lpmf(seen[k] | det[1] + det[2] * depth[k]);
    if (sum(seen[k]) > 0) {
      target += lp;
    } else {
      target += log_sum_exp(lp, log1m_inv_logit(psi));
    }
  }
}
