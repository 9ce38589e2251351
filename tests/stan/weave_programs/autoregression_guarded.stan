// data: {"N": 12}
data { int N; vector[N] y; }
parameters { real beta; real<lower=0> sigma; }
model {
  for (n in 1:N) {
    if (n > 1) y[n] ~ normal(beta * y[n - 1], sigma);
  }
}
