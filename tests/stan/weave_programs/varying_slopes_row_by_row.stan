// data: {"N": 20, "J": 4, "K": 2}
// Inner products of a row with its group's vector, in every order.
data { int N; int J; int K; array[N] int<lower=1, upper=J> jj; matrix[N, K] x; vector[N] y; array[N] int<lower=0, upper=1> hit; }
parameters { array[J] vector[K] a; array[J] row_vector[K] b; matrix[J, K] c; real<lower=0> sigma; }
model {
  for (j in 1:J) { a[j] ~ normal(0, 1); b[j] ~ normal(0, 1); }
  to_vector(c) ~ normal(0, 1);
  sigma ~ exponential(1);
  for (n in 1:N) {
    real eta = x[n] * a[jj[n]] + dot_product(b[jj[n]], x[n, ]) - 0.5 * (c[jj[n]] * x[n]');
    y[n] ~ normal(eta + a[jj[n]]' * x[n]', sigma);
    hit[n] ~ bernoulli_logit(eta);
  }
}
