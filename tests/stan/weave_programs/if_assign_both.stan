// data: {"N": 10}
data { int N; vector[N] x; vector[N] y; array[N] int<lower=0, upper=1> t; }
parameters { real a; real b; real<lower=0> s; }
model {
  real mu;
  for (i in 1:N) {
    if (t[i] == 1) mu = a; else mu = b * x[i];
    y[i] ~ normal(mu, s);
  }
}
