// data: {"N": 11, "K": 3, "s": [4, 2, 5]}
// The number of rows in segments, which the loop leaves in the position, is read after it.
data { int N; int K; vector[N] y; vector[N] z; array[K] int s; }
parameters { real mu; real<lower=0> sigma; real nu; }
model {
  int pos = 1;
  for (k in 1:K) {
    segment(y, pos, s[k]) ~ normal(mu, sigma);
    pos += s[k];
  }
  nu ~ normal(pos, sigma);
  pos = 1;
  for (k in 1:K) {
    segment(z, pos, s[k]) ~ normal(nu + k, sigma);
    pos += s[k];
  }
}
