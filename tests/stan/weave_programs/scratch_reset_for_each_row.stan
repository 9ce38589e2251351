// data: {"N": 12}
data { int N; vector[N] x; vector[N] y; array[N] int<lower=1, upper=3> k; }
parameters { real a; real<lower=0> s; }
model {
  vector[3] h;
  vector[2] both;
  a ~ normal(0, 5);
  s ~ exponential(1);
  for (n in 1:N) {
    h = rep_vector(0, 3);
    h[k[n]] = a * x[n];
    for (j in 1:2) both[j] = a * j;
    y[n] ~ normal(sum(h) + both[1] - both[2], s);
  }
}
