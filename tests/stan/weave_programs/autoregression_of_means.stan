// data: {"N": 9}
data { int N; vector[N] y; vector[N] x; }
parameters { real a; real b; real<lower=0> s; }
transformed parameters { vector[N] mu = a + b * x; }
model {
  y[2:N] ~ normal(mu[1:(N - 1)], s);
}
