// data: {"N": 20, "J": 4}
// Elements of arrays of vectors, by one pair of brackets or by two.
data { int N; int J; array[N] int<lower=1, upper=J> g; vector[N] x; array[N] int<lower=0, upper=1> y; }
parameters { array[J] vector[2] b; array[2, J] row_vector[2] c; }
model {
  for (j in 1:J) b[j] ~ std_normal();
  for (i in 1:2) for (j in 1:J) c[i, j] ~ std_normal();
  for (n in 1:N) y[n] ~ bernoulli_logit(b[g[n]][1] + b[g[n], 2] * x[n] + c[2][g[n], 1] * x[n] ^ 2);
}
