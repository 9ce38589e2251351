// data: {"N": 7, "K": 3}
// Vectors are rows, although a density of each entry says the same.
data { int N; int K; array[N] vector[K] y; }
parameters { vector[K] m; vector<lower=0>[K] s; }
model {
  for (n in 1:N) y[n] ~ multi_normal(m, diag_matrix(square(s)));
}
