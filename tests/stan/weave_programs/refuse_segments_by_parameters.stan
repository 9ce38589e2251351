// refuse: \d+ .*
data { int N; int J; vector[N] y; array[J] int first; array[J] int last; }
parameters { vector[J] mu; real<lower=0> s; }
model {
  mu ~ normal(0, 1);
  for (j in 1:J) {
    if (mu[j] > 0) {
      y[first[j]:last[j]] ~ normal(mu[j], s);
    }
  }
}
