// refuse: 9 `time` keeps a value of the previous observation
// A number added to what the observation before has left.
data { int N; vector[N] y; }
parameters { real a; real b; real<lower=0> s; }
model {
  real time = 0;
  for (n in 1:N) {
    time += 1;
    y[n] ~ normal(a + b * time, s);
  }
}
