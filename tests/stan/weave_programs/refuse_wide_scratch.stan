// refuse: \d+ .*
// What a loop keeps for all columns cannot leave it.
data { int I; int J; array[I] vector[J] y; }
parameters { vector[I] a; real<lower=0> s; }
model {
  for (i in 1:I) {
    vector[J] mu = rep_vector(a[i], J);
    mu[2:J] += cumulative_sum(y[i])[1:(J - 1)];
    y[i] ~ normal(mu, s);
  }
}
