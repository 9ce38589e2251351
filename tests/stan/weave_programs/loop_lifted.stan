// data: {"N": 9, "J": 3}
data { int N; int J; vector[N] y; array[N] int<lower=1, upper=J> g; matrix[N, 2] X; }
parameters { real mu; real<lower=0> s; array[J] real a; matrix[2, J] B; row_vector[2] c; }
model {
  for (n in 1:N) {
    real m = mu + a[g[n]] + X[n, 2] ^ 2 * s / (1 + square(X[n, 1])) + X[n] * c' - pow(y[n], 2) * 0.1;
    y[n] ~ normal(m, s);
    target += normal_lupdf(y[n] | a[g[n]], exp(X[n, :2] * c'));
    1 ~ bernoulli_logit(m);
  }
  a ~ normal(0, 1);
}
