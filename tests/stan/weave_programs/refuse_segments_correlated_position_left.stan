// data: {"N": 12, "K": 3, "s": [4, 2, 5]}
// refuse: 9 uses only part of the observations
// What the loop leaves in the position depends on all segments, which are the rows.
data { int N; int K; vector[N] y; array[K] int s; matrix[9, 9] S; }
parameters { real mu; real<lower=0> sigma; real nu; }
model {
  int pos = 1;
  for (k in 1:K) {
    segment(y, pos, s[k]) ~ multi_normal(rep_vector(mu, s[k]), S[1:s[k], 1:s[k]]);
    pos += s[k];
  }
  nu ~ normal(pos, sigma);
}
