// data: {"N": 12}
data { int<lower=0> N; array[N] real<lower=0> x; array[N] real Y; }
parameters { real alpha; real beta; real<lower=.5, upper=1> lambda; real<lower=0> tau; }
transformed parameters {
  real sigma; array[N] real m;
  for (i in 1:N) m[i] = alpha - beta * pow(lambda, x[i]);
  sigma = 1 / sqrt(tau);
}
model { Y ~ normal(m, sigma); alpha ~ normal(0, 1000); beta ~ normal(0, 1000); lambda ~ uniform(.5, 1); tau ~ gamma(.0001, .0001); }
