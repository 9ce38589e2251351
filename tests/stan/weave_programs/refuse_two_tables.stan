// refuse: 2 both `N` and `M` can count .*one table with a column
data { int N; int M; vector[N] y; vector[M] censored; }
parameters { real a; real<lower=0> s; }
model {
  y ~ normal(a, s);
  target += normal_lccdf(censored | a, s);
}
