// data: {"N": 6, "T": 4, "L": [1, 3, 2, 4, 1, 2]}
// What a row reads only where it is there: the first element has none before it.
data { int N; int T; array[N] int<lower=1, upper=T> L; vector[N] y; }
parameters { real a; real<lower=0> s; }
model {
  vector[T] h;
  for (n in 1:N) {
    for (t in L[n]:T) h[t] = t == L[n] ? a : 0.5 * a * h[t - 1] + 1;
    y[n] ~ normal(h[T], s);
  }
}
