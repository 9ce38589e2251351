// refuse: \d .
data { int T; vector[T] y; }
parameters { real mu; real theta; real<lower=0> sigma; }
model {
  vector[T] epsilon;
  epsilon[1] = y[1] - mu;
  for (t in 2:T) epsilon[t] = y[t] - mu - theta * epsilon[t - 1];
  mu ~ cauchy(0, 2.5);
  for (t in 1:T) y[t] ~ normal(mu + epsilon[t], sigma);
}
