// refuse: \d+ .*
// A mixture over classes of whole groups: the observations of a group are one unit.
data { int N; int J; array[N] int<lower=1, upper=J> g; vector[N] y; }
parameters { ordered[2] mu; real<lower=0, upper=1> p; }
model {
  vector[J] l1 = rep_vector(0, J);
  vector[J] l2 = rep_vector(0, J);
  for (n in 1:N) {
    l1[g[n]] += normal_lpdf(y[n] | mu[1], 1);
    l2[g[n]] += normal_lpdf(y[n] | mu[2], 1);
  }
  for (j in 1:J) target += log_mix(p, l1[j], l2[j]);
}
