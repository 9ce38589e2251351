// Person-months until churn: a complementary log-log hazard of each month.
data {
  int<lower=1> N;
  int<lower=1> T;
  int<lower=1> P;
  array[N] int<lower=1, upper=T> month;
  array[N] int<lower=0, upper=1> churn;
  array[N] int<lower=1, upper=P> plan;
  vector[N] usage;
  vector[N] contract;
}
parameters {
  vector[T] alpha;
  real mu_alpha;
  real<lower=0> sigma_alpha;
  vector[P] b_plan;
  real<lower=0> sigma_plan;
  real b_usage;
  real b_contract;
}
model {
  mu_alpha ~ normal(-2, 0.4);
  sigma_alpha ~ normal(0, 0.5);
  alpha ~ normal(mu_alpha, sigma_alpha);
  sigma_plan ~ normal(0, 0.4);
  b_plan ~ normal(0, sigma_plan);
  b_usage ~ normal(0, 0.4);
  b_contract ~ normal(-0.5, 0.4);
  for (n in 1:N) {
    real eta = alpha[month[n]] + b_plan[plan[n]] + b_usage * usage[n] + b_contract * contract[n];
    churn[n] ~ bernoulli(inv_cloglog(eta));
  }
}
