// data: {"K": 11, "N": 3, "len": [4, 2, 5]}
data { int N; int K; array[N] int len; vector[K] y; }
parameters { real mu; }
model {
  int pos = 1;
  for (n in 1:N) {
    segment(y, pos, len[n]) ~ normal(mu, 1);
    pos += len[n];
  }
}
