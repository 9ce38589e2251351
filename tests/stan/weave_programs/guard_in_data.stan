// data: {"N": 12, "idx": "rng.integers(1, 4, N)"}
data { int<lower=10> N; array[N] int<lower=1> idx; vector[N] y; }
transformed data {
  int L = max(idx);
  vector[L] count = rep_vector(0, L);
  if (N < 10) reject("too few observations: ", N);
  for (n in 1:N) count[idx[n]] += 1;
  for (n in 1:N) if (is_nan(y[n])) reject("nan in row ", n);
}
parameters { vector[L] a; real<lower=0> s; }
model { a ~ normal(0, 1 ./ sqrt(count)); y ~ normal(a[idx], s); if (N < 5) reject("no"); }
