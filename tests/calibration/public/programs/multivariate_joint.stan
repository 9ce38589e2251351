// A score and whether a course was passed, with a teacher's effect on both.
data {
  int<lower=1> N;
  int<lower=1> T;
  array[N] int<lower=1, upper=T> teacher;
  vector[N] x;
  vector[N] score;
  array[N] int<lower=0, upper=1> passed;
}
parameters {
  vector[2] a;
  vector[2] b;
  real<lower=0> sigma;
  real load;
  real<lower=0> tau;
  vector[T] q;
}
model {
  a ~ normal(0, 0.7);
  b ~ normal(0, 0.7);
  sigma ~ gamma(4, 4);
  load ~ normal(0.5, 0.5);
  tau ~ normal(0, 0.7);
  q ~ std_normal();
  for (n in 1:N) {
    real f = tau * q[teacher[n]];
    score[n] ~ normal(a[1] + b[1] * x[n] + f, sigma);
    passed[n] ~ bernoulli_logit(a[2] + b[2] * x[n] + load * f);
  }
}
