// data: {"N": 9, "M": 9}
data { int N; int M; array[N] int<lower=0, upper=1> t; vector[M] y; }
parameters { real a; }
model {
  int k = 1;
  for (i in 1:N) {
    if (t[i] == 1) { y[k] ~ normal(a, 1); k += 1; }
  }
}
