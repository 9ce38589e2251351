data {
  int<lower=0> N;
  vector[N] y;
  vector[N] x;
  array[N] int g;
}
transformed data {
  vector[5] gm = rep_vector(0, 5);
  {
    vector[5] c = rep_vector(0.0, 5);
    for (n in 1 : N) {
      gm[g[n]] += x[n];
      c[g[n]] += 1;
    }
    gm = gm ./ c;
  }
}
parameters {
  real a;
  real b;
  real<lower=0> s;
}
model {
  a ~ normal(0, 1);
  b ~ normal(0, 1);
  s ~ exponential(1);
  y ~ normal(a + b * (x - gm[g]), s);
}

