// data: {"N": 20, "N_obs": 12, "y_obs": "rng.normal(size=N_obs)", "ii_obs": "rng.permutation(N)[:N_obs] + 1"}
data { int N; int N_obs; array[N_obs] int<lower=1, upper=N> ii_obs; vector[N_obs] y_obs; vector[N] x; }
parameters { real a; real b; real<lower=0> s; }
model {
  vector[N] mu = a + b * x;
  y_obs ~ normal(mu[ii_obs], s);
}
