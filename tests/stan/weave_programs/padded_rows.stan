// data: {"N": 9, "M": 4, "len": "rng.integers(1, M + 1, N)"}
data { int N; int M; array[N] int<lower=1, upper=M> len; array[N, M] real y; }
parameters { real mu; real<lower=0> s; real<lower=0> t; }
model {
  for (i in 1:N) {
    y[i, 1:len[i]] ~ normal(mu, s);
    for (j in 1:len[i]) target += -t * square(y[i, j]);
  }
}
