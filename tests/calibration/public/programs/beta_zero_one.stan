// Shares with zeros and ones: two logits and a beta regression.
data {
  int<lower=1> N;
  vector<lower=0, upper=1>[N] y;
  vector[N] x;
}
parameters {
  vector[2] coef_a;
  vector[2] coef_g;
  vector[2] coef_m;
  real coef_p;
}
model {
  coef_a ~ normal(-0.7, 0.5);
  coef_g ~ normal(0, 0.5);
  coef_m ~ normal(0, 0.6);
  coef_p ~ normal(1.5, 0.4);
  for (i in 1:N) {
    real alpha = inv_logit(coef_a[1] + coef_a[2] * x[i]);
    real gam = inv_logit(coef_g[1] + coef_g[2] * x[i]);
    real mu = inv_logit(coef_m[1] + coef_m[2] * x[i]);
    real phi = exp(coef_p);
    if (y[i] == 0) {
      target += log(alpha) + log1m(gam);
    } else if (y[i] == 1) {
      target += log(alpha) + log(gam);
    } else {
      target += log1m(alpha) + beta_lpdf(y[i] | mu * phi, (1 - mu) * phi);
    }
  }
}
