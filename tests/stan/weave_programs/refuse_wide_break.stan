// refuse: \d+ .*
// A break ends a row of the table, not all cells.
data { int I; int J; matrix[I, J] y; array[I] int seen; }
parameters { vector[I] a; real<lower=0> s; }
model {
  a ~ normal(0, 1);
  for (i in 1:I) for (j in 1:J) {
    if (j > seen[i]) break;
    y[i, j] ~ normal(a[i], s);
  }
}
