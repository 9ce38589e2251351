// data: {"N": 12, "D": 3}
functions {
  real mo(vector scale, int i) {
    if (i == 0) { return 0; } else { return rows(scale) * sum(scale[1:i]); }
  }
}
data { int N; vector[N] Y; int D; array[N] int<lower=0, upper=D> Xmo_1; vector[D] con; }
transformed data { vector[D] c1 = rep_vector(1.0, D); }
parameters { real b; real a; simplex[D] simo_1; real<lower=0> sigma; }
model {
  vector[N] mu = rep_vector(0.0, N);
  mu += a;
  for (n in 1:N) { mu[n] += b * mo(simo_1, Xmo_1[n]); }
  target += normal_lpdf(Y | mu, sigma);
  target += dirichlet_lpdf(simo_1 | c1);
}
