// data: {"N": 12}
// The outcome before is data of the row: the likelihood is the sum of f(y[n] | y[n - 1]).
data { int N; vector[N] y; }
parameters { real alpha; real beta; real<lower=0> sigma; }
model {
  for (n in 2:N) y[n] ~ normal(alpha + beta * y[n - 1], sigma);
}
