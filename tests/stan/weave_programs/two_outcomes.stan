// data: {"N": 14}
data { int N; vector[N] x; vector[N] y1; array[N] int<lower=0, upper=1> y2; }
parameters { real a1; real b1; real a2; real b2; real<lower=0> s; real<lower=-1, upper=1> rho; }
model {
  vector[N] mu1 = a1 + b1 * x;
  y1 ~ normal(mu1, s);
  y2 ~ bernoulli_logit(a2 + b2 * x + rho * (y1 - mu1) / s);
  [a1, b1, a2, b2] ~ normal(0, 2);
}
