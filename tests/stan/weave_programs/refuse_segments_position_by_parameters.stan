// data: {"N": 12, "K": 3, "s": [4, 2, 5]}
// refuse: 8 uses only part of the observations
data { int N; int K; vector[N] y; array[K] int s; matrix[9, 9] S; }
parameters { real mu; real<lower=0> sigma; }
model {
  int pos = 1;
  for (k in 1:K) {
    segment(y, pos, s[k]) ~ multi_normal(rep_vector(mu, s[k]), S[1:s[k], 1:s[k]]);
    if (mu > 0) pos += s[k];
  }
}
