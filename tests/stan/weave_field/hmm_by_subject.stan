data {
  int N;
  int T;
  array[N, T] int<lower=0, upper=1> y;
}
parameters {
  simplex[2] p1;
  array[2] simplex[2] G;
  ordered[2] e;
}
model {
  e ~ normal(0, 2);
  for (n in 1 : N) {
    vector[2] lp = log(p1);
    for (k in 1 : 2) 
      lp[k] += bernoulli_logit_lpmf(y[n, 1] | e[k]);
    for (t in 2 : T) {
      vector[2] nx;
      for (k in 1 : 2) 
        nx[k] = log_sum_exp(lp + log([G[1, k], G[2, k]]'))
                + bernoulli_logit_lpmf(y[n, t] | e[k]);
      lp = nx;
    }
    target += log_sum_exp(lp);
  }
}

