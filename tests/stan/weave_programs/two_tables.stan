// data: {"N": 7, "M": 6}
data { int N; int M; vector[N] y; vector[M] censored; }
parameters { real a; real<lower=0> s; }
model {
  y ~ normal(a, s);
  target += normal_lccdf(censored | a, s);
}
