// Growth of children: intercepts and slopes of each child, correlated.
data {
  int<lower=1> N;
  int<lower=1> child_n;
  array[N] int<lower=1, upper=child_n> child;
  vector[N] age;
  vector[child_n] girl;
  vector[N] height;
}
parameters {
  real b_0;
  real b_age;
  real b_girl;
  real<lower=0> s_0;
  real<lower=0> s_age;
  real<lower=-1, upper=1> rho;
  vector[child_n] w_0;
  vector[child_n] w_1;
  real<lower=0> sigma;
}
transformed parameters {
  vector[child_n] u_0 = s_0 * w_0;
  vector[child_n] u_age = s_age * (rho * w_0 + sqrt(1 - rho^2) * w_1);
}
model {
  b_0 ~ normal(0, 1);
  b_age ~ normal(1, 0.5);
  b_girl ~ normal(0, 0.5);
  s_0 ~ normal(0, 1);
  s_age ~ normal(0, 0.5);
  rho ~ uniform(-1, 1);
  w_0 ~ std_normal();
  w_1 ~ std_normal();
  sigma ~ exponential(2);
  height ~ normal(b_0 + b_girl * girl[child] + u_0[child] + (b_age + u_age[child]) .* age, sigma);
}
