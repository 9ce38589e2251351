// data: {"N": 12, "M": 5, "out": 3}
data { int N; int M; int out; vector[N] x; vector[N] y; }
parameters { real a; real b; real<lower=0> s; }
model {
  for (n in 1:N) if (n != 2) y[n] ~ normal(a + b * x[n], s);
  for (n in 1:N) {
    if (n == out) continue;
    if (n <= M) y[n] ~ cauchy(a, s);
    else target += cauchy_lccdf(y[n] | a, s);
  }
  for (n in 1:M) y[n] ~ normal(b, 2);
}
