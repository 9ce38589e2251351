// refuse: 9 `times` keeps a value of the previous observation
// A number added to what the observation before has left in an element.
data { int N; vector[N] y; }
parameters { real a; real b; real<lower=0> s; }
model {
  vector[2] times = [0, 0]';
  for (n in 1:N) {
    times[1] += 1;
    y[n] ~ normal(a + b * times[1], s);
  }
}
