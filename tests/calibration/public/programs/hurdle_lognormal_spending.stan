// Spending of customers on two levels: whether anything was bought, and for how much.
data {
  int<lower=1> N;
  int<lower=1> G;
  array[N] int<lower=1, upper=G> segment;
  vector[N] x;
  vector[N] member;
  array[N] int<lower=0, upper=1> bought;
  vector<lower=0>[N] amount;
}
transformed data {
  array[N] int positive;
  int n_pos = 0;
  for (n in 1:N) {
    if (bought[n] == 1) {
      n_pos += 1;
      positive[n_pos] = n;
    }
  }
}
parameters {
  vector[3] gamma;
  vector[3] delta;
  real<lower=0> sigma;
  vector<lower=0>[2] omega;
  vector[G] u;
  vector[G] v;
}
model {
  gamma ~ normal(0, 0.6);
  delta ~ normal(0, 0.6);
  sigma ~ normal(0, 1);
  omega ~ exponential(3);
  u ~ normal(0, omega[1]);
  v ~ normal(0, omega[2]);
  bought ~ bernoulli_logit(gamma[1] + gamma[2] * x + gamma[3] * member + u[segment]);
  for (j in 1:n_pos) {
    int n = positive[j];
    amount[n] ~ lognormal(2 + delta[1] + delta[2] * x[n] + delta[3] * member[n] + v[segment[n]],
                          sigma);
  }
}
