data {
  int N;
  int K;
  vector[K + 1] cut;
  vector[N] t;
  array[N] int d;
  vector[N] x;
}
parameters {
  vector[K] logh;
  real b;
}
model {
  logh ~ normal(0, 1);
  b ~ normal(0, 1);
  for (n in 1 : N) {
    for (k in 1 : K) {
      if (t[n] > cut[k]) {
        real dt = fmin(t[n], cut[k + 1]) - cut[k];
        target += -dt * exp(logh[k] + b * x[n]);
        if (d[n] == 1 && t[n] <= cut[k + 1]) 
          target += logh[k] + b * x[n];
      }
    }
  }
}

