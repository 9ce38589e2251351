// data: {"N": 11, "K": 3, "s": [4, 2, 5]}
data { int<lower=0> N; int<lower=0> K; vector[N] y; array[K] int s; }
parameters { vector[K] mu; real<lower=0> sigma; }
model {
  int pos;
  pos = 1;
  for (k in 1:K) {
    segment(y, pos, s[k]) ~ normal(mu[k], sigma);
    pos = pos + s[k];
  }
}
