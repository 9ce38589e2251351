// Blood values of patients over visits: each depends on the last, which is a column of its own.
data {
  int<lower=1> N;
  int<lower=1> patients;
  int<lower=1> D;
  array[N] int<lower=1, upper=patients> patient;
  matrix[N, D] X;
  vector[N] last;
  vector[N] value;
}
parameters {
  vector[D] beta;
  real<lower=-1, upper=1> carry;
  real level;
  vector[patients] own;
  real<lower=0> var_own;
  real<lower=0> var_error;
}
model {
  level ~ normal(0, 1);
  carry ~ normal(0.4, 0.2);
  beta ~ normal(0, 0.5);
  var_own ~ inv_gamma(5, 3);
  var_error ~ inv_gamma(5, 4);
  own ~ normal(level, sqrt(var_own));
  value ~ normal(own[patient] + carry * last + X * beta, sqrt(var_error));
}
