// refuse: 11 .*computed from data rows.*
// The number of entries of data that may be absent is not the number of rows.
data {
  int<lower=0> N;
  int<lower=0, upper=1> has_offset;
  vector[has_offset ? N : 0] off;
  vector[N] y;
}
parameters { real mu; real b; }
model {
  target += normal_lpdf(y | mu, 1) + size(off) * normal_lpdf(b | 0, 1);
}
