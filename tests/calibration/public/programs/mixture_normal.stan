// Lengths of fish of two ages, which nobody has told apart.
data {
  int<lower=1> fish;
  vector[fish] length_;
}
parameters {
  ordered[2] centre;
  vector<lower=0>[2] spread;
  real<lower=0, upper=1> young;
}
model {
  centre[1] ~ normal(-1, 0.5);
  centre[2] ~ normal(1.5, 0.5);
  spread ~ lognormal(-0.5, 0.3);
  young ~ beta(5, 5);
  for (k in 1:fish) {
    target += log_mix(young, normal_lpdf(length_[k] | centre[1], spread[1]),
                      normal_lpdf(length_[k] | centre[2], spread[2]));
  }
}
