// data: {"N": 6, "T": 3}
// obs: N
data { int N; int T; array[N] vector[T] y; vector[T] time; }
parameters { real a; real b; real<lower=0> s; cholesky_factor_corr[T] L; }
model { for (i in 1:N) y[i] ~ multi_normal_cholesky(a + b * time, s * L); L ~ lkj_corr_cholesky(1); }
