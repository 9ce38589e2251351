// data: {"N": 12, "y": "rng.integers(0, 2, N)"}
data { int N; array[N] int<lower=0, upper=1> y; vector[N] x; }
transformed data {
  vector[N] x_sorted = sort_asc(x);
  int n1 = sum(y);
  real prop = n1 * 1.0 / N;
}
parameters { real a; real b; }
model { y ~ bernoulli_logit(logit(prop) + a + b * x_sorted); a ~ normal(0, 1); }
