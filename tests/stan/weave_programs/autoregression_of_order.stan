// data: {"N": 12, "P": 2, "Q": 3}
data { int N; int P; int Q; vector[N] y; matrix[N, 2] X; array[N] int<lower=0> z; row_vector[N] w; }
parameters { real a; vector[P] b; matrix[Q, 2] c; real<lower=0> s; }
model {
  for (n in (P + 1):N) {
    real mu = a;
    for (k in 1:P) mu += b[k] * y[n - k];
    y[n] ~ normal(mu + 0.1 * dot_product(b, y[(n - P):(n - 1)]), s);
  }
  for (n in (Q + 1):N) {
    real eta = a;
    for (k in 1:Q) for (m in 1:2) eta += c[k, m] * X[n - k, m];
    for (k in 1:P) eta += b[k] * X[n - k] * c[k]';
    for (k in 0:P) eta += 0.2 * a * X[n - k, 2];
    for (k in 1:Q) eta += 0.1 * c[k, 1] * (y[n - k] + z[n - k]);
    z[n] ~ poisson_log(eta + w[(n - P + 1):n] * b);
  }
}
