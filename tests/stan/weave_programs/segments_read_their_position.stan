// data: {"N": 11, "K": 3, "s": [4, 2, 5]}
// The number of a segment's first row is data of the segment, and no row knows it.
data { int N; int K; vector[N] y; array[K] int s; }
parameters { real mu; real<lower=0> sigma; }
model {
  int pos = 1;
  for (k in 1:K) {
    segment(y, pos, s[k]) ~ normal(mu, sigma * pos);
    pos += s[k];
  }
}
