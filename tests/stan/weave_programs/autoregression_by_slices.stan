// data: {"N": 12}
// As the loop in `autoregression`, with slices, and with a local number of the row before.
data { int N; vector[N] y; vector[N] x; }
parameters { real alpha; vector[2] beta; real<lower=0> sigma; }
model {
  y[2:N] ~ normal(alpha + beta[1] * y[1:(N - 1)], sigma);
  target += cauchy_lpdf(tail(y, N - 2) | alpha * x[3:] + beta[2] * y[:(N - 2)], 1);
  for (n in 3:N) {
    int before = n - 1;
    int first = before - 1;
    x[n] ~ student_t(4, beta[1] * x[before] - beta[2] * x[first], 2);
  }
}
