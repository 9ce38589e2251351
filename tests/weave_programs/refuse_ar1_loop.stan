// refuse: 5 part of the observations|neighbouring
data { int N; vector[N] y; }
parameters { real alpha; real beta; real<lower=0> sigma; }
model {
  for (n in 2:N) y[n] ~ normal(alpha + beta * y[n - 1], sigma);
}
