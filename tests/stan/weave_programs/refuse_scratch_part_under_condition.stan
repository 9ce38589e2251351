// refuse: 6 previous observation
data { int N; vector[N] x; vector[N] y; }
parameters { real a; real b; real<lower=0> s; }
model {
  vector[2] h = rep_vector(0, 2);
  for (n in 1:N) { h[1] = a; y[n] ~ normal(sum(h), s); if (x[n] > 0) h[2] = b; }
}
