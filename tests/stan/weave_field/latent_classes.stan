data {
  int N;
  int I;
  int C;
  array[N, I] int<lower=0, upper=1> y;
}
parameters {
  simplex[C] nu;
  array[C] vector<lower=0, upper=1>[I] p;
}
model {
  array[C] real ps;
  for (c in 1 : C) 
    p[c] ~ beta(1, 1);
  for (n in 1 : N) {
    for (c in 1 : C) {
      ps[c] = log(nu[c]);
      for (i in 1 : I) 
        ps[c] += bernoulli_lpmf(y[n, i] | p[c, i]);
    }
    target += log_sum_exp(ps);
  }
}

