// data: {"N": 12, "K": 2, "s": [4, 2], "M": 2, "u": [5, 1]}
// The second loop goes on where the first has ended.
data { int N; int K; int M; vector[N] y; array[K] int s; array[M] int u; }
parameters { vector[K] mu; vector[M] nu; real<lower=0> sigma; }
model {
  int pos = 1;
  for (k in 1:K) {
    segment(y, pos, s[k]) ~ normal(mu[k], sigma);
    pos += s[k];
  }
  for (k in 1:M) {
    segment(y, pos, u[k]) ~ normal(nu[k], sigma);
    pos += u[k];
  }
}
