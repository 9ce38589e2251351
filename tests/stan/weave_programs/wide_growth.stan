// data: {"I": 5, "J": 4, "G": 2, "g": "rng.integers(1, G + 1, I)"}
// Growth curves: each person has a row of the table, and each measurement a column.
data {
  int<lower=1> I;
  int<lower=1> J;
  int<lower=1> G;
  array[I] int<lower=1, upper=G> g;
  array[I] vector[J] y;
  matrix[I, J] z;
  vector[J] time;
}
parameters {
  vector[I] a;
  vector[I] b;
  vector[G] m;
  real<lower=0> s;
}
model {
  b ~ std_normal();
  for (i in 1 : I) {
    a[i] ~ normal(m[g[i]], 1);
    y[i] ~ normal(a[i] + b[i] * time - square(time) / 2, s);
  }
  for (j in 1 : J) {
    z[ : , j] ~ cauchy(a + b * exp(time[j]) + m[g] .* a, s);
  }
}
