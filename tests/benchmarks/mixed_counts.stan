data { int<lower=1> N; array[N] int Y; int<lower=1> K; matrix[N,K] X; int N_1; array[N] int J_1; int N_2; array[N] int J_2; }
parameters { vector[K] b; real Intercept; real<lower=0> shape; vector<lower=0>[1] sd_1; array[1] vector[N_1] z_1; vector<lower=0>[1] sd_2; array[1] vector[N_2] z_2; }
transformed parameters { vector[N_1] r_1_1; vector[N_2] r_2_1; real lprior = 0; r_1_1 = sd_1[1]*z_1[1]; r_2_1 = sd_2[1]*z_2[1];
 lprior += student_t_lpdf(Intercept | 3, 0.7, 2.5); lprior += gamma_lpdf(shape | 0.01, 0.01);
 lprior += student_t_lpdf(sd_1 | 3, 0, 2.5) - 1 * student_t_lccdf(0 | 3, 0, 2.5); lprior += student_t_lpdf(sd_2 | 3, 0, 2.5) - 1 * student_t_lccdf(0 | 3, 0, 2.5); }
model { vector[N] mu = rep_vector(0.0, N); mu += Intercept + X*b; for (n in 1:N) { mu[n] += r_1_1[J_1[n]] + r_2_1[J_2[n]]; }
 target += neg_binomial_2_log_lpmf(Y | mu, shape); target += lprior; target += std_normal_lpdf(z_1[1]); target += std_normal_lpdf(z_2[1]); }
