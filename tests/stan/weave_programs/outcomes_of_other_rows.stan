// data: {"N_a": 8, "N_b": 5}
// Two outcomes on rows of their own: a coreset has rows of both.
data {
  int<lower=1> N_a;
  int<lower=1> N_b;
  vector[N_a] y_a;
  array[N_b] int y_b;
}
parameters {
  real mu;
  real eta;
}
model {
  y_a ~ normal(mu, 1);
  y_b ~ poisson_log(eta + mu);
}
