// data: {"N": 20, "J": 4}
data { int N; int J; array[N] int<lower=1, upper=J> group; vector[N] x; vector[N] y; vector[J] u; }
parameters { vector[J] a_raw; real mu; real<lower=0> tau; real b; real g; real<lower=0> sigma; }
transformed parameters {
  vector[J] a = mu + g * u + tau * a_raw;
  vector[N] yhat;
  for (i in 1:N) yhat[i] = a[group[i]] + b * x[i];
}
model {
  a_raw ~ std_normal();
  tau ~ cauchy(0, 2.5);
  sigma ~ cauchy(0, 2.5);
  y ~ normal(yhat, sigma);
}
