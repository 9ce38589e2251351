// data: {"N": 9, "c": "np.resize([0, 1], N)"}
data { int N; array[N] int c; vector<lower=0>[N] t; }
parameters { real<lower=0> l; }
model {
  int n = 1;
  l ~ gamma(1, 1);
  while (n <= N) {
    if (c[n]) target += exponential_lccdf(t[n] | l);
    else t[n] ~ exponential(l);
    n += 1;
  }
}
