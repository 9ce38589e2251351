// data: {"N": 12, "J": 3}
// Numbers for the eye, which no term of the log density reads.
data { int N; int J; vector[N] x; vector[N] y; array[N] int<lower=1, upper=J> g; }
parameters { real a; real b; real<lower=0> s; }
model {
  real total = 0;
  vector[J] of_group = rep_vector(0, J);
  int k = 0;
  for (n in 1:N) {
    real mu = a + b * x[n];
    real residual = y[n] - mu;
    k += 1;
    total += residual ^ 2;
    of_group[g[n]] += residual;
    y[n] ~ normal(mu, s);
  }
  print("deviance ", total, " of ", k);
}
