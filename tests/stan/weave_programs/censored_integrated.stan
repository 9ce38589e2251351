// data: {"N_obs": 10, "N_cens": 3, "U": 2.5, "y_obs": "rng.normal(size=N_obs)"}
data { int N_obs; int N_cens; array[N_obs] real y_obs; real U; }
parameters { real mu; real<lower=0> sigma; }
model { y_obs ~ normal(mu, sigma); target += N_cens * normal_lccdf(U | mu, sigma); }
