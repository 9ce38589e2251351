// data: {"I": 4, "J": 3, "z": "rng.integers(-1, 3, (I, J))"}
// A row's own vectors have an entry for each of its cells, and so has a table of vectors.
data {
  int I; int J; array[I, J] int<lower=0, upper=1> y; array[I, J] int<lower=-1, upper=2> z;
  array[I, J] vector[2] v; matrix[I, J] x;
}
parameters {
  vector[I] u; vector<lower=0>[J] a; vector[J] b; vector<lower=0, upper=1>[J] c;
  cov_matrix[2] S; real g;
}
model {
  array[I, J, 2] real p;
  u ~ normal(0, 1);
  for (i in 1:I) {
    real twice = 2 * u[i];
    vector[J] q = c + (1 - c) .* inv_logit(a .* (twice - b));
    y[i] ~ bernoulli(q);
  }
  for (i in 1:I) {
    vector[J] eta = u[i] + g * x[i]' - b;
    for (j in 1:J) y[i, j] ~ bernoulli_logit(2 * eta[j]);
  }
  for (i in 1:I) for (j in 1:J) {
    v[i, j] ~ multi_normal(rep_vector(u[i] + b[j], 2), S);
    v[i, j, 1] ~ normal(v[i][j][2] * g, a[j]);
  }
  for (i in 1:I) {
    for (j in 1:J) {
      p[i, j, 1] = inv_logit(u[i] - b[j]);
      p[i, j, 2] = 1 - p[i, j, 1];
      if (z[i, j] > 0) target += log(p[i, j, z[i, j]]);
    }
  }
}
