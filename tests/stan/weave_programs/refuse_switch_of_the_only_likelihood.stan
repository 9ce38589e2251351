// refuse: 11 .*correlates all.*|.*joint density.*
// What the data may choose is the only density of the outcome.
data { int<lower=0> N; int<lower=0, upper=1> prior_only; vector[N] y; vector[N] x; array[N] real t; }
parameters { real<lower=0> s; real a; }
model {
  s ~ exponential(1);
  a ~ normal(0, 1);
  x ~ normal(a, 1);
  if (!prior_only) {
    // y has one density in which all rows are
    y ~ multi_normal(rep_vector(a, N), gp_exp_quad_cov(t, s, 1.0));
  }
}
