// Response times, some of which are lapses of attention.
data {
  int<lower=1> N;
  int<lower=1> S;
  vector<lower=0>[N] rt;
  vector[N] incongruent;
  array[N] int<lower=1, upper=S> subj;
}
parameters {
  real alpha;
  real beta;
  real<lower=0> sigma;
  real<lower=0, upper=1> lapse;
  real<lower=0> tau;
  vector[S] u;
}
model {
  alpha ~ normal(-0.5, 0.3);
  beta ~ normal(0.1, 0.1);
  sigma ~ lognormal(-1, 0.3);
  lapse ~ beta(2, 20);
  tau ~ normal(0, 0.3);
  u ~ normal(0, tau);
  for (n in 1:N)
    target += log_mix(lapse, exponential_lpdf(rt[n] | 0.5),
                      lognormal_lpdf(rt[n] | alpha + beta * incongruent[n] + u[subj[n]], sigma));
}
