// refuse: 2 each of `N` and `T` can count the observations
data { int N; int T; matrix[N, T] y; row_vector[T] time; }
parameters { real a; real b; real<lower=0> s; }
model { for (n in 1:N) y[n] ~ normal(a + b * time, s); }
