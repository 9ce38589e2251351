// data: {"I": 4, "J": 3}
// A term for all cells, of rows and columns with effects; products of factors are of cells, too.
data { int I; int J; matrix[I, J] y; array[I, J] int<lower=0, upper=1> z; matrix[I, J] x; }
parameters {
  vector[I] a; row_vector[J] b; vector[J] d; matrix[I, 2] F; matrix[J, 2] L; real m; real<lower=0> s;
}
model {
  a ~ normal(0, 1);
  to_vector(F) ~ normal(0, 1);
  to_vector(y) ~ normal(to_vector(rep_matrix(a, J) + rep_matrix(b, I) - rep_matrix(d', I)), s);
  to_vector(y) ~ normal(m + to_vector(F * L' - a * d' + exp(x) .* (a * b)), 2 * s);
  to_vector(y) ~ cauchy(to_vector((L * F')' + rep_matrix(m, I, J)), to_vector(exp(x / 3)));
  array[I, J] real e;
  for (i in 1:I) for (j in 1:J) e[i, j] = a[i] * d[j];
  target += bernoulli_logit_lpmf(to_array_1d(z) | to_array_1d(e));
}
