// data: {"A": 3, "B": 4, "C": 2}
data { int A; int B; int C; array[A, B, C] int<lower=0> y; }
parameters { matrix[A, B] th; }
model {
  to_vector(th) ~ normal(0, 1);
  for (j in 1:B)
    for (g in 1:C)
      y[, j, g] ~ poisson_log(th[, j]);
}
