// data: {"N": 14}
data { int N; array[N] int<lower=0, upper=1> seen; vector[N] y; }
parameters { real mu; real<lower=0, upper=1> p; }
model {
  for (n in 1:N) {
    if (seen[n] == 1) { y[n] ~ normal(mu, 1); target += log(p); }
    else target += log1m(p);
  }
}
