// data: {"J": 3, "n": [4, 2, 5]}
// Ragged arrays, cut at starts that transformed data add up from the groups' sizes.
data {
  int<lower=1> J;
  array[J] int<lower=1> n;
  vector[sum(n)] y;
  vector<lower=0>[sum(n)] t;
}
transformed data {
  array[J + 1] int first;
  first[1] = 1;
  for (j in 1:J) first[j + 1] = first[j] + n[j];
}
parameters { real a; vector<lower=0>[J] k; real<lower=0> s; }
model {
  a ~ normal(0, 2);
  s ~ exponential(1);
  for (j in 1:J) {
    k[j] ~ lognormal(0, s);
    for (i in first[j]:(first[j + 1] - 1)) {
      vector[2] terms = [normal_lpdf(y[i] | a, s), normal_lpdf(y[i] | a - k[j] * t[i], s)]';
      target += log_sum_exp(terms);
    }
  }
}
