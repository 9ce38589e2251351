// data: {"N": 12, "n_trials": "rng.integers(3, 9, N)", "y": "rng.integers(0, 4, N)"}
data { int N; array[N] int<lower=0> n_trials; array[N] int<lower=0> y; vector[N] dose; }
parameters { real a; real b; }
model { y ~ binomial_logit(n_trials, a + b * dose); a ~ normal(0, 2); b ~ normal(0, 2); }
