// data: {"N": 14, "kind": "np.resize([0, 1, 2, 1, 0], N)", "u": "y + 1.5"}
// Rows of each kind are numbered in transformed data; loops over their numbers read a local mean.
data { int N; array[N] int<lower=0, upper=2> kind; vector[N] y; vector[N] u; vector[N] x; }
transformed data {
  int E = 0;
  int I = 0;
  array[N] int exact;
  array[N] int interval;
  for (n in 1:N) {
    if (kind[n] == 0) { E += 1; exact[E] = n; }
    else if (kind[n] == 1) { I += 1; interval[I] = n; }
  }
}
parameters { real a; real b; real<lower=0> s; }
model {
  vector[N] mu = a + b * x;
  a ~ normal(0, 1); b ~ normal(0, 1); s ~ normal(0, 1);
  for (k in 1:E) { int j = exact[k]; y[j] ~ normal(mu[j], s); }
  for (k in 1:I)
    target += log_diff_exp(normal_lcdf(u[interval[k]] | mu[interval[k]], s),
                           normal_lcdf(y[interval[k]] | mu[interval[k]], s));
}
