// data: {"N": 9, "D": 2, "K": 3}
data { int N; int D; int K; matrix[N, D] x; array[N] int<lower=1, upper=K> y; }
transformed data { vector[D] zeros = rep_vector(0, D); }
parameters { matrix[D, K - 1] beta_raw; }
transformed parameters { matrix[D, K] beta = append_col(beta_raw, zeros); }
model { matrix[N, K] x_beta = x * beta; to_vector(beta_raw) ~ normal(0, 5); for (n in 1:N) y[n] ~ categorical_logit(x_beta[n]'); }
