// data: {"N": 10}
// refuse: \d+ .
data { int N; vector[N] x; vector[N] y; array[N] int<lower=0, upper=1> t; }
parameters { real a; real b; real<lower=0> s; }
model {
  real mu = 0;
  for (i in 1:N) {
    if (t[i] == 1) mu = a;
    y[i] ~ normal(mu, s);
  }
}
