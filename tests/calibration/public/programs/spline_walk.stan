// A curve of B-splines: the weights of the basis are a random walk.
data {
  int<lower=1> N;
  int<lower=3> n_basis;
  matrix[N, n_basis] basis;
  vector[N] x;
  vector[N] y;
}
parameters {
  real trend;
  real first;
  vector[n_basis - 1] step;
  real<lower=0> rough;
  real<lower=0> noise;
}
transformed parameters {
  vector[n_basis] weight = cumulative_sum(append_row(first, rough * step));
}
model {
  trend ~ normal(0, 1);
  first ~ normal(0, 1);
  step ~ std_normal();
  rough ~ normal(0, 1);
  noise ~ gamma(4, 8);
  y ~ normal(trend * x + basis * weight, noise);
}
