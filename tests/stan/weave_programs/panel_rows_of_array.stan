// data: {"M": 8, "T": 4}
// obs: M
data { int M; int T; array[M, T] int<lower=0, upper=1> y; }
parameters { real<lower=0, upper=1> psi; vector<lower=0, upper=1>[T] p; }
model {
  for (i in 1:M) {
    if (sum(y[i]) > 0) {
      target += log(psi) + bernoulli_lpmf(y[i] | p);
    } else {
      target += log_sum_exp(log(psi) + bernoulli_lpmf(y[i] | p), log1m(psi));
    }
  }
}
