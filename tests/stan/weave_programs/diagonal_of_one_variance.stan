// data: {"N": 7}
data { int N; vector[N] y; matrix[3, 3] S; }
parameters { real mu; real<lower=0> s; }
model { y ~ multi_normal(rep_vector(mu, N), diag_matrix(rep_vector(s, N))); }
