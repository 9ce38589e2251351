// data: {"N": 7, "P": 3}
data { int N; int P; array[N] vector[P] y; }
parameters { vector[P] lam; vector<lower=0>[P] psi; vector[P] a; }
model { y ~ multi_normal(a, lam * lam' + diag_matrix(psi)); lam ~ normal(0, 1); psi ~ lognormal(0, 1); }
