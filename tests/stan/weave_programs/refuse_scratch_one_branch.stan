// refuse: 8 previous observation
data { int N; array[N] int<lower=1, upper=3> k; vector[N] y; }
parameters { real a; real b; real<lower=0> s; }
model {
  vector[2] h = rep_vector(a, 2);
  for (n in 1:N) {
    if (k[n] == 1) h[1] = b; else if (k[n] == 2) h[1] = 1; else h[2] = b;
    y[n] ~ normal(sum(h), s);
  }
}
