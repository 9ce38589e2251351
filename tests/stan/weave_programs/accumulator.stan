// data: {"N": 12}
data { int N; vector[N] y; }
parameters { real mu; real<lower=0> s; }
model {
  real lp = normal_lpdf(mu | 0, 1);
  for (i in 1:N) lp += normal_lpdf(y[i] | mu, s);
  target += lp;
}
