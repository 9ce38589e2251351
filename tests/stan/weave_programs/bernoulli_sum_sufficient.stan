// data: {"N": 12}
data { int N; vector<lower=0, upper=1>[N] y; }
parameters { real<lower=0, upper=1> theta; }
model {
  target += beta_lpdf(theta | 2, 2);
  target += sum(y) * log(theta) + (N - sum(y)) * log1m(theta);
}
