// data: {"N": 12, "y": "rng.integers(1, 4, N)", "c": "rng.integers(0, 2, (N, 2))"}
data { int N; array[N] int<lower=1, upper=3> y; array[N, 2] int<lower=0, upper=1> c; vector[N] x; }
parameters { simplex[4] p; real b; }
model {
  vector[4] phi;
  vector[3] h;
  p ~ dirichlet(rep_vector(4, 4));
  for (i in 1:N) {
    // majority first, and the other boxes of McElreath: each element in both branches
    if (y[i] == 2) phi[1] = 0.9; else phi[1] = 0.05;
    if (y[i] == 3) phi[2] = 0.9; else if (y[i] == 1) phi[2] = 0.02; else phi[2] = 0.05;
    phi[3] = 1.0 / 3.0;
    if (c[i, 1] == 1) {
      if (y[i] == 2) phi[4] = 0.8; else phi[4] = 0.1;
    } else {
      phi[4] = 0.3;
    }
    for (j in 1:4) phi[j] = log(p[j]) + log(phi[j]);
    for (j in 1:2) { if (c[i, j]) h[j] = b; else h[j] = b * x[i]; }
    h[3] = h[1] * h[2];
    target += log_sum_exp(phi) + normal_lpdf(x[i] | sum(h), 1);
  }
}
