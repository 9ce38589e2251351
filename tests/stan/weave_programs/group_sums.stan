// data: {"N": 13, "J": 3}
// The log likelihood of each group, then added up: as a sum, or one by one.
data { int N; int J; array[N] int<lower=1, upper=J> g; vector[N] y; array[N] int<lower=1, upper=2> h; }
parameters { vector[J] a; real<lower=0> s; }
transformed parameters {
  matrix[J, 2] by_both = rep_matrix(0, J, 2);
  for (n in 1:N) by_both[g[n], h[n]] += cauchy_lpdf(y[n] | a[g[n]], 1 + h[n]);
}
model {
  vector[J] ll = rep_vector(0, J);
  a ~ normal(0, 1);
  s ~ exponential(1);
  if (J > 1) {
    array[J] real other = rep_array(0.0, J);
    for (n in 1:N) if (y[n] > 0) other[g[n]] += -square(y[n]) * s;
    for (j in 1:J) target += 0.5 * other[j];
  }
  for (n in 1:N) ll[g[n]] += normal_lpdf(y[n] | a[g[n]], s);
  target += sum(ll);
  target += sum(by_both) * 0.25;
}
