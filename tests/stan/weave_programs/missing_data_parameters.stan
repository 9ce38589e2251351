// data: {"N_obs": 10, "N_mis": 3}
data { int<lower=0> N_obs; int<lower=0> N_mis; array[N_obs] real y_obs; }
parameters { real mu; real<lower=0> sigma; array[N_mis] real y_mis; }
model { y_obs ~ normal(mu, sigma); y_mis ~ normal(mu, sigma); mu ~ normal(0, 1); }
