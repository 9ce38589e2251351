// data: {"N": 9, "J": 3, "C": 3, "y": "rng.integers(1, C + 1, (N, J))"}
// obs: N
data { int N; int J; int C; array[N, J] int<lower=1, upper=C> y; vector[N] x; }
parameters { array[J] ordered[C - 1] kappa; vector[J] b; }
model {
  for (j in 1:J) {
    y[:, j] ~ ordered_logistic(b[j] * x, kappa[j]);
    kappa[j] ~ normal(0, 2);
  }
  b ~ normal(0, 1);
}
