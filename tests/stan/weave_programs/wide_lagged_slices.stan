// data: {"I": 4, "J": 6, "upto": 5}
// Parts of rows, each with an effect: what stands before a cell is data of the cell.
data {
  int I; int J; int upto; matrix[I, J] y; array[I] vector[J] z; matrix[I, J] x;
  array[I, J] int<lower=0> c; vector[J] w;
}
parameters { vector[I] u; vector[J] g; real b; real<lower=0> s; }
model {
  u ~ normal(0, 1);
  for (i in 1:I) {
    y[i, 2:upto] ~ normal(u[i] + b * y[i, 1:(upto - 1)], s);
    y[i, 1:upto] ~ student_t(5, u[i] + w[1:upto]', s);
    segment(z[i], 2, upto - 1) ~ normal(u[i] + b * head(z[i], upto - 1) + g[2:upto], s);
  }
  for (i in 1:I)
    target += poisson_log_lpmf(c[i, :upto] | u[i] + b * x[i, :upto] + g[:upto]' .* w[:upto]');
}
