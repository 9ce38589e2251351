// Abilities depend on the person's schooling; some answers are guesses with a known chance.
data {
  int<lower=1> N;
  int<lower=1> J;
  int<lower=1> I;
  array[N] int<lower=1, upper=J> jj;
  array[N] int<lower=1, upper=I> ii;
  array[N] int<lower=0, upper=1> correct;
  matrix[J, 2] W;
  real<lower=0, upper=1> guess;
}
parameters {
  vector[2] lambda;
  vector[J] z_theta;
  real<lower=0> sigma_theta;
  vector[I] b;
}
transformed parameters {
  vector[J] theta = W * lambda + sigma_theta * z_theta;
}
model {
  lambda ~ normal(0, 0.5);
  z_theta ~ std_normal();
  sigma_theta ~ normal(1, 0.3);
  b ~ normal(0, 1);
  for (n in 1:N) {
    correct[n] ~ bernoulli(guess + (1 - guess) * inv_logit(theta[jj[n]] - b[ii[n]]));
  }
}
