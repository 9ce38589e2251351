// severity ~ dose + (1 | site): adjacent categories.
functions {
  real acat_logit_lpmf(int y, real mu, real disc, vector thres) {
    int nthres = num_elements(thres);
    vector[nthres + 1] p = append_row(0, cumulative_sum(disc * (mu - thres)));
    return p[y] - log_sum_exp(p);
  }
}
data {
  int<lower=1> N;
  int<lower=2> nthres;
  int<lower=1> S;
  array[N] int Y;
  vector[N] dose;
  array[N] int<lower=1, upper=S> site;
}
parameters {
  real b;
  vector[nthres] tau;
  real<lower=0> sd_site;
  vector[S] z;
}
model {
  vector[S] r = sd_site * z;
  target += normal_lpdf(b | 0.3, 0.5);
  target += normal_lpdf(tau | 0, 1);
  target += normal_lpdf(sd_site | 0, 0.5) - normal_lccdf(0 | 0, 0.5);
  target += std_normal_lpdf(z);
  for (n in 1 : N) {
    real mu = b * dose[n] + r[site[n]];
    target += acat_logit_lpmf(Y[n] | mu, 1.0, tau);
  }
}
